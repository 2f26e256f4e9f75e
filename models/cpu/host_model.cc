#include "models/cpu/host_model.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "models/files/load_error.h"

namespace reprise::models::cpu {
namespace {

constexpr const char* kHeadInAdapters = "lm_head";

}  // namespace

HostModel::HostModel(ModelFiles files, const ComputeOptions& options, gpu::Threads& threads,
                     gpu::Threads& packers, const LoadProgress& progress)
    : Model(std::move(files), options),
      threads_(threads),
      kernels_(gpu::cpu_kernels(options.isa)),
      embedding_(files_, config().embedding),
      final_norm_(files_, config().final_norm),
      head_(files_, config().head) {
  if (config().embedding_norm) embedding_norm_.emplace(files_, *config().embedding_norm);
  BuildContext context{.files = files_, .options = options_, .state = state_, .ropes = ropes_};
  const Preparation how{
      .kernels = kernels_, .compute = options_.compute, .threads = packers, .adaptable = &adaptable_};
  for (const LayerSpec& layer : config().layers) {
    layers_.push_back(build_layer(layer, context));
    layers_.back().prepare(how);
    if (progress) progress(layers_.size(), config().layers.size());
  }
  const std::vector<const AttentionSpec*> attention = parts_of<AttentionSpec>(config().layers);
  exports_slots_ = std::none_of(attention.begin(), attention.end(),
                                [](const AttentionSpec* spec) { return spec->window != 0; });
  head_.call(kHeadInAdapters);  // even if it is tied to the embedding
  head_.prepare(how);
}

void HostModel::add_adapter(AdapterKey key, const Adapter& adapter) {
  for (const AdapterPart& part : adapter.parts()) {
    if (!adaptable_.contains(part.name)) {
      throw LoadError(adapter.path(), part.name, "adapting this matrix is not supported");
    }
  }
  REPRISE_CHECK(key != 0 && adapters_.try_emplace(key, adapter).second,
                "an adapter's key is 0 or already in use");
}

void HostModel::add_slices(Step& step, std::span<const Slice> slices) const {
  for (const Slice& slice : slices) {
    REPRISE_CHECK(!slice.tokens.empty(), "a batch has an empty slice");
    StepSlice step_slice{.sequence = slice.sequence,
                         .first_row = step.rows,
                         .rows = slice.tokens.size(),
                         .stored = slice.sequence->stored(),
                         .logical = slice.sequence->logical(),
                         .pages = {},
                         .tail = slice.tail,
                         .exports = slice.exports};
    REPRISE_CHECK(step_slice.stored + step_slice.rows <= slice.sequence->pages().size() * gpu::kPageTokens,
                  "a slice has fewer pages than its tokens need");
    for (std::size_t i = 0; i < slice.sequence->pages().size(); ++i) {
      step_slice.pages.push_back(slice.sequence->page_data(i));
    }
    if (slice.adapter != 0) {
      step.adapters.push_back({&adapters_.at(slice.adapter), step_slice.first_row, step_slice.rows});
    }
    step.rows += step_slice.rows;
    step.slices.push_back(std::move(step_slice));
  }
}

void HostModel::make_ropes(Step& step, std::span<const Slice> slices) const {
  std::vector<std::size_t> positions;
  for (const Slice& slice : slices) {
    for (std::size_t i = 0; i < slice.tokens.size(); ++i) positions.push_back(slice.sequence->logical() + i);
  }
  ropes_.make(step, positions);
}

void HostModel::give_hidden(Step& step, std::span<const Slice> slices, const float* x) {
  const std::size_t hidden = config().hidden;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    if (slice.hidden == nullptr) continue;
    const StepSlice& step_slice = step.slices[i];
    const std::size_t first = slice.adds_hidden ? 0 : step_slice.rows - 1;
    const std::size_t rows = step_slice.rows - first;
    float* chosen = scratch_.floats(rows * hidden);
    std::memcpy(chosen, x + (step_slice.first_row + first) * hidden, rows * hidden * sizeof(float));
    final_norm_.apply(step, chosen, rows, chosen);
    if (!slice.adds_hidden) std::fill_n(slice.hidden, hidden, 0.0f);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t k = 0; k < hidden; ++k) slice.hidden[k] += chosen[row * hidden + k];
    }
  }
}

std::span<const float> HostModel::make_logits(Step& step, std::span<const Slice> slices, const float* x) {
  const std::size_t hidden = config().hidden;
  std::vector<std::size_t> wanted;  // rows of the step with logits
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const StepSlice& step_slice = step.slices[i];
    if (slices[i].logits == Slice::Logits::kNone) continue;
    const std::size_t first = slices[i].logits == Slice::Logits::kAll ? 0 : step_slice.rows - 1;
    for (std::size_t row = first; row < step_slice.rows; ++row) wanted.push_back(step_slice.first_row + row);
  }
  static constexpr traces::ZoneSite kSite{"logits"};
  const traces::Zone zone(kSite);
  logits_.resize(wanted.size() * config().vocab);
  if (wanted.empty()) return logits_;
  float* chosen = scratch_.floats(wanted.size() * hidden);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    std::memcpy(chosen + i * hidden, x + wanted[i] * hidden, hidden * sizeof(float));
  }
  final_norm_.apply(step, chosen, wanted.size(), chosen);
  LinearInput input(chosen, wanted.size(), StepRows::listed(wanted));
  head_.apply(step, input, logits_.data());
  if (config().logit_multiplier != 1) {
    kernels_.scale(config().logit_multiplier, logits_.data(), logits_.size());
  }
  if (config().logit_cap) kernels_.soft_cap(*config().logit_cap, logits_.data(), logits_.size());
  return logits_;
}

std::span<const float> HostModel::forward(std::span<const Slice> slices, Phase /*phase*/) {
  scratch_.reset();
  Step step{.kernels = kernels_, .threads = threads_, .options = options_, .scratch = scratch_};
  add_slices(step, slices);
  make_ropes(step, slices);
  const std::size_t hidden = config().hidden;
  float* x = scratch_.floats(step.rows * hidden);  // [rows, hidden]
  std::size_t row = 0;
  for (const Slice& slice : slices) {
    for (const TokenId token : slice.tokens) {
      REPRISE_CHECK(token >= 0 && static_cast<std::size_t>(token) < embedding_.outputs(),
                    "a token is outside the vocabulary");
      embedding_.row(step, static_cast<std::size_t>(token), x + row++ * hidden);
    }
  }
  if (config().embedding_multiplier != 1) {
    kernels_.scale(config().embedding_multiplier, x, step.rows * hidden);
  }
  if (embedding_norm_) embedding_norm_->apply(step, x, step.rows, x);
  if (const std::size_t handed = handed_on(config().layers); handed != 0) {
    step.first_values = scratch_.floats(step.rows * handed);
  }
  for (const Layer& layer : layers_) layer.apply(step, x, hidden);
  for (const Slice& slice : slices) {
    const std::size_t begin = slice.sequence->logical();
    slice.sequence->advance(slice.tokens.size());
    if (slice.tail != nullptr) slice.tail->note(begin, slice.sequence->logical());
  }
  give_hidden(step, slices, x);
  return make_logits(step, slices, x);
}

void HostModel::compact(const Compaction& compaction) {
  static constexpr traces::ZoneSite kSite{"compact prompt"};
  const traces::Zone zone(kSite);
  const gpu::Sequence& sequence = *compaction.sequence;
  REPRISE_CHECK(sequence.stored() == sequence.logical(), "a prompt was compacted twice");
  CompactionStep step{.threads = threads_,
                      .tail = *compaction.tail,
                      .budget = compaction.budget,
                      .from = {},
                      .into = {},
                      .tokens = static_cast<std::uint32_t>(sequence.stored())};
  for (std::size_t i = 0; i < sequence.pages().size(); ++i) step.from.push_back(sequence.page_data(i));
  for (std::size_t i = 0; i < compaction.into->size(); ++i) step.into.push_back(compaction.into->data(i));
  for (const Layer& layer : layers_) layer.compact(step);
}

}  // namespace reprise::models::cpu

namespace reprise::models {

std::unique_ptr<Model> load_on_cpu(const std::filesystem::path& path, const ComputeOptions& options,
                                   gpu::Threads& threads, gpu::Threads* packers,
                                   const LoadProgress& progress) {
  static constexpr traces::ZoneSite kSite{"build layers"};
  ModelFiles files = ModelFiles::open(path);
  const traces::Zone zone(kSite);
  return std::make_unique<cpu::HostModel>(std::move(files), options, threads,
                                          packers == nullptr ? threads : *packers, progress);
}

}  // namespace reprise::models
