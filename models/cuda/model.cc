#include "models/cuda/model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/check.h"
#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/gemm/formats.h"
#include "gpu/cuda/rows/embedding.h"
#include "gpu/cuda/rows/rows.h"
#include "gpu/cuda/rows/sampling.h"
#include "gpu/devices.h"
#include "models/files/load_error.h"
#include "models/gpu_plan.h"
#include "models/weight_tensors.h"
#include "traces/gpu_timeline.h"
#include "traces/trace.h"

namespace reprise::models::cuda {
namespace {

constexpr const char* kHeadInAdapters = "lm_head";

std::set<std::string> mixtures_on_host(const ModelFiles& files, std::uint32_t cpu_experts) {
  try {
    return experts_on_host(files.config(), cpu_experts);
  } catch (const SettingError& error) {
    throw LoadError(files.path(), "", error.what());
  }
}

// Fast mode: rows between GEMMs are bf16, and so are KV entries unless another type is requested. Precise
// mode: rows are f32 and multiplied as sums of two bf16 terms, and everything between GEMMs is computed in
// f32; requires weights that are kept as bf16.

/// Size of the weights, in bytes, up to which Compute::kAuto is precise: the steps of such models are short
/// either way.
constexpr std::uint64_t kPreciseByItself = std::uint64_t{64} << 20;

/// Returns the name of the first matrix that a GPU does not keep as bf16, or an empty string.
std::string matrix_that_is_rounded(const ModelFiles& files) {
  for (const std::string& name : files.names()) {
    if (files.shape(name).size() < 2) continue;
    const gpu::WeightFormat* format = format_of(files.stored_type(name));
    const gc::DeviceUpload* upload = format == nullptr ? nullptr : gc::find_upload(*format);
    if (upload == nullptr || !upload->kept->is_rows_of_bf16) return name;
  }
  return "";
}

/// Returns whether to compute precisely, as requested by the options; Compute::kAuto decides by the model's
/// size and formats. Throws LoadError if precise mode is requested but not possible: weights other than bf16,
/// or experts on the host.
bool computes_precisely(const ModelFiles& files, const ComputeOptions& options, bool has_host_experts) {
  const bool is_auto = options.compute == gpu::Compute::kAuto;
  if (!is_auto && options.compute != gpu::Compute::kPrecise) return false;
  const std::string rounded = matrix_that_is_rounded(files);
  if (is_auto) {
    return rounded.empty() && !has_host_experts && files.total_bytes() <= kPreciseByItself;
  }
  if (!rounded.empty()) {
    throw LoadError(
        files.path(), rounded,
        std::string(info(files.stored_type(rounded)).name) +
            ": --compute precise does not support this type on a GPU, which rounds activations for it");
  }
  if (has_host_experts) {
    throw LoadError(
        files.path(), "",
        "--cpu-experts cannot be used with --compute precise: experts on the host get activations in bf16");
  }
  return true;
}

// Limits for recording CUDA graphs: larger steps take longer than their launches, and would have too many
// sizes.
constexpr int kMaxRecordedDecodes = 64;
constexpr int kMaxRecordedSlices = 8;  // of a prefill

// Flags in the key of a recorded graph, above the 62 bits for sizes.
constexpr std::uint64_t kKeyOfPrefill = std::uint64_t{1} << 63;
constexpr std::uint64_t kKeyRemembers = std::uint64_t{1} << 62;
constexpr std::uint64_t kKeyDraws = std::uint64_t{1} << 62;  // of a decode with sampling

std::uint64_t key_number(int value) {
  return static_cast<std::uint64_t>(value);
}
std::uint64_t key_width(int value) {
  return key_number(std::bit_width(static_cast<unsigned>(value)));
}

/// Returns the indices of slices without an adapter, and of those with one.
std::array<std::vector<std::size_t>, 2> groups_of(std::span<const Slice> slices) {
  std::array<std::vector<std::size_t>, 2> groups;
  for (std::size_t i = 0; i < slices.size(); ++i) groups[slices[i].adapter != 0 ? 1 : 0].push_back(i);
  return groups;
}

/// Collects rows that are computed group by group, and returns them in the order of slices.
class RowsByIndex {
 public:
  explicit RowsByIndex(std::size_t slices) : rows_(slices) {}

  void put(std::size_t index, std::span<const float> row) { rows_[index].assign(row.begin(), row.end()); }
  /// Replaces `all` by the rows that were put, concatenated.
  void move_to(std::vector<float>& all) const {
    all.clear();
    for (const std::vector<float>& row : rows_) all.insert(all.end(), row.begin(), row.end());
  }

 private:
  std::vector<std::vector<float>> rows_;
};

}  // namespace

std::unique_ptr<CudaModel> CudaModel::load(const std::filesystem::path& path, const ComputeOptions& options,
                                           gc::Arena& arena, const Placement& placement) {
  return std::make_unique<CudaModel>(ModelFiles::open(path), options, arena, placement);
}

CudaModel::CudaModel(ModelFiles files, const ComputeOptions& options, gc::Arena& arena,
                     const Placement& placement)
    : Model(std::move(files), options),
      device_(placement.device),
      precise_(computes_precisely(files_, options, placement.cpu_experts != 0)),
      weights_(files_, arena),
      handed_on_(handed_on(config().layers)),
      memory_(placement.memory) {
  if (const auto refusal = gpu_refusal(options)) throw LoadError(files_.path(), "", *refusal);
  const std::set<std::string> on_host = mixtures_on_host(files_, placement.cpu_experts);
  if (!on_host.empty()) host_experts_ = std::make_unique<HostExperts>(options, placement.threads);
  embedding_ = weights_.linear({config().embedding});
  if (const auto refusal = gpu_refusal(config())) {
    throw LoadError(files_.path(), "", *refusal + " is not supported on a GPU yet; use --device cpu");
  }
  BuildContext context{.files = files_,
                       .kv = options.kv,
                       .weights = weights_,
                       .state = state_,
                       .ropes = ropes_,
                       .on_host = on_host,
                       .experts = host_experts_.get()};
  for (const LayerSpec& layer : config().layers) {
    for (ResidualStep& step : build_layer(layer, context)) steps_.push_back(std::move(step));
  }
  if (config().embedding_norm) embedding_norm_ = build_norm(*config().embedding_norm, context);
  head_.norm = build_norm(config().final_norm, context);
  head_.linear = config().tied() ? embedding_ : weights_.linear({config().head});
  head_.linear.layers = {{kHeadInAdapters, 0}};  // even if tied to the embedding
  head_.multiplier = config().logit_multiplier;
  head_.cap = config().logit_cap.value_or(0);
  weights_.finish();
  join_steps();
  for (const ResidualStep& step : steps_) {
    step.admit({.gemm = gemm_, .max_rows = placement.max_rows, .precise = precise_});
    has_late_ = has_late_ || !step.late_parts.empty();
    for (const auto* parts : {&step.parts, &step.late_parts}) {
      for (const auto& part : *parts) {
        exports_states_ = exports_states_ && part->exports_states();
        for (const DeviceLinear* linear : part->adaptable()) {
          for (const DeviceLinear::Layer& layer : linear->layers) adaptable_.insert(layer.name);
        }
      }
    }
  }
  adaptable_.insert(kHeadInAdapters);
}

void CudaModel::join_steps() {
  if (precise_ || config().hidden % 32 != 0 || steps_.empty()) return;
  if (!embedding_norm_ && embedding_.weight.format->is_rows_of_bf16 && steps_.front().can_read_unscaled()) {
    first_norm_ = steps_.front().read_unscaled();
    defers_norm_ = true;
  }
  const auto join = [&](ResidualStep& step, auto& next) {
    if (!step.can_defer_norm() || !next.can_read_unscaled()) return;
    step.defer_norm_for(next.read_unscaled());
    defers_norm_ = true;
  };
  for (std::size_t i = 0; i + 1 < steps_.size(); ++i) join(steps_[i], steps_[i + 1]);
  join(steps_.back(), head_);
}

void CudaModel::add_adapter(AdapterKey key, const Adapter& adapter) {
  if (memory_ == nullptr) return Model::add_adapter(key, adapter);
  for (const AdapterPart& part : adapter.parts()) {
    if (!adaptable_.contains(part.name)) {
      throw LoadError(adapter.path(), part.name, "adapting this matrix is not supported on a GPU");
    }
  }
  REPRISE_CHECK(key != 0 && adapters_.try_emplace(key, adapter, *memory_).second,
                "an adapter's key is 0 or already in use");
}

void CudaModel::remove_adapter(AdapterKey key) {
  adapters_.erase(key);
}

CudaModel::Chosen CudaModel::choose(std::span<const Slice> slices) const {
  Chosen out;
  int row = 0;
  int picked = 0;
  for (const Slice& slice : slices) {
    const auto rows = static_cast<int>(slice.tokens.size());
    const int wanted = slice.logits == Slice::Logits::kNone  ? 0
                       : slice.logits == Slice::Logits::kAll ? rows
                                                             : 1;
    if (slice.adapter != 0) {
      const DeviceAdapter& adapter = adapters_.at(slice.adapter);
      out.rows.push_back({&adapter, row, rows});
      if (wanted > 0) out.picked.push_back({&adapter, picked, wanted});
      out.max_rank = std::max(out.max_rank, adapter.max_rank());
    }
    row += rows;
    picked += wanted;
  }
  return out;
}

std::string CudaModel::why_not_compacted() const {
  std::string why = models::why_not_compacted(config().layers);
  if (!why.empty()) return why;
  if (options().kv == gpu::KvType::kF32) return "on a GPU, keys and values of type f32 cannot be compacted";
  const auto attention = parts_of<AttentionSpec>(config().layers);
  const bool has_window = std::any_of(attention.begin(), attention.end(),
                                      [](const AttentionSpec* spec) { return spec->window != 0; });
  return has_window ? "on a GPU, layers with an attention window cannot be compacted" : "";
}

void CudaModel::compact(const Compaction& compaction) {
  static constexpr traces::ZoneSite kSite{"compact prompt"};
  const traces::Zone zone(kSite);
  const gpu::Sequence& sequence = *compaction.sequence;
  REPRISE_CHECK(sequence.stored() == sequence.logical(), "a prompt was compacted twice");
  REPRISE_CHECK(
      compaction.tail->window() == compaction.budget.window && compaction.tail->covers(sequence.stored()),
      "a prompt is compacted without the queries of its last tokens");
  std::vector<std::byte*> pages;
  for (std::size_t i = 0; i < sequence.pages().size(); ++i) pages.push_back(sequence.page_data(i));
  for (std::size_t i = 0; i < compaction.into->size(); ++i) pages.push_back(compaction.into->data(i));

  Workspace& memory = prefill_.workspace;
  const gc::StreamHandle stream = prefill_.stream.handle();
  const std::size_t page_bytes = pages.size() * sizeof pages[0];
  std::size_t most = 0;
  for (const ResidualStep& step : steps_) {
    most = std::max(most, step.compaction_workspace(sequence.stored(), compaction.budget));
  }
  memory.reset();
  memory.reserve(Workspace::rounded(page_bytes) + most);
  auto* on_gpu = memory.take<std::byte*>(pages.size());
  gc::copy_to_device(reinterpret_cast<std::byte*>(on_gpu), pages.data(), page_bytes, stream);
  const CudaCompaction prompt{.pages = on_gpu,
                              .into = on_gpu + sequence.pages().size(),
                              .tokens = static_cast<int>(sequence.stored()),
                              .ring = ring_of(*compaction.tail),
                              .budget = compaction.budget,
                              .workspace = memory,
                              .stream = stream};
  for (const ResidualStep& step : steps_) step.compact(prompt);
  prefill_.stream.wait();
}

bool CudaModel::draws() const {
  return config().vocab <= static_cast<std::size_t>(gc::kMaxVocab);
}

std::string CudaModel::arithmetic() const {
  std::string out = precise_ ? "cuda, precise" : "cuda";
  for (const gpu::DeviceInfo& info : gpu::list_devices()) {
    if (info.index != device_) continue;
    out += ", " + info.name + ", compute " + std::to_string(info.compute_major) + "." +
           std::to_string(info.compute_minor) + ", driver " + std::to_string(info.driver_version) +
           ", runtime " + std::to_string(info.runtime_version);
  }
  out += ", " + gemm_.arithmetic();
  if (host_experts_ == nullptr) return out;
  return out + ", experts of " + std::to_string(host_experts_->layers()) + " layers by " +
         host_experts_->arithmetic();
}

void CudaModel::bind_thread() {
  gc::use_device(device_);
}

// Copies rows of logits to the host and waits for the pass.
std::span<const float> CudaModel::fetch(const Logits& logits, std::span<const int> rows, Phase phase) {
  const std::size_t vocab = config().vocab;
  PhaseContext& context = context_of(phase);
  gc::PinnedBytes& to = context.logits;
  const std::size_t row_bytes = vocab * sizeof(float);
  if (rows.size() * row_bytes > to.size()) to = gc::PinnedBytes(std::bit_ceil(rows.size() * row_bytes));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float* from =
        logits.rows + static_cast<std::size_t>(rows[i]) * static_cast<std::size_t>(head_.outputs());
    gc::copy_to_host(to.data() + i * row_bytes, reinterpret_cast<const std::byte*>(from), row_bytes,
                     context.stream.handle());
  }
  if (context.is_timed) context.stopwatch.stop(context.stream.handle());
  context.stream.wait();
  trace_pass(phase);
  return {reinterpret_cast<const float*>(to.data()), rows.size() * vocab};
}

// Adds the pass to the trace, ending with the host's wait: the GPU has another clock.
void CudaModel::trace_pass(Phase phase) {
  if (!context_of(phase).is_timed) return;
  static constexpr traces::ZoneSite kPrefill{"prefill pass"};
  static constexpr traces::ZoneSite kDecode{"decode pass"};
  const std::int64_t end = traces::now_ns();
  const auto length = static_cast<std::int64_t>(context_of(phase).stopwatch.milliseconds() * 1e6);
  traces::span(phase == Phase::kDecode ? kDecode : kPrefill, "GPU", end - length, end);
}

std::span<const float> CudaModel::fetch_all(const Logits& logits, Phase phase) {
  std::vector<int> rows(static_cast<std::size_t>(logits.count));
  std::iota(rows.begin(), rows.end(), 0);
  return fetch(logits, rows, phase);
}

std::span<const float> CudaModel::fetch_prefilled(const Logits& logits, std::span<const Slice> slices) {
  if (std::all_of(slices.begin(), slices.end(), [](const Slice& slice) { return slice.plan == nullptr; })) {
    return fetch_all(logits, Phase::kPrefill);
  }
  std::vector<std::optional<SamplePlan>> plans;  // one per row of logits
  std::vector<std::optional<DrawnToken>*> to;
  std::vector<int> kept;
  for (const Slice& slice : slices) {
    const std::size_t rows = slice.logits == Slice::Logits::kNone  ? 0
                             : slice.logits == Slice::Logits::kAll ? slice.tokens.size()
                                                                   : 1;
    const bool drawn = draws() && rows == 1 && slice.plan != nullptr && !slice.plan->masks;
    for (std::size_t i = 0; i < rows; ++i) {
      if (!drawn) kept.push_back(static_cast<int>(plans.size()));
      plans.push_back(drawn ? std::optional(*slice.plan) : std::nullopt);
      to.push_back(drawn ? slice.drawn : nullptr);
    }
  }
  if (kept.size() == plans.size()) return fetch_all(logits, Phase::kPrefill);
  first_draw_.launch(logits.rows, head_.outputs(), static_cast<int>(config().vocab), plans,
                     prefill_.stream.handle());
  const std::span<const float> rows = fetch(logits, kept, Phase::kPrefill);
  const std::vector<std::optional<DrawnToken>> drawn = first_draw_.results(plans);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (to[i] != nullptr) *to[i] = drawn[i];
  }
  return rows;
}

std::span<const float> CudaModel::forward(std::span<const Slice> slices, Phase phase) {
  if (phase == Phase::kDecode && mixes(slices)) return forward_apart(slices);
  const Logits logits = enqueue(slices, phase);
  return phase == Phase::kPrefill ? fetch_prefilled(logits, slices) : fetch_all(logits, phase);
}

void CudaModel::decode(DecodePass& pass) {
  if (mixes(pass.slices)) return decode_apart(pass);
  finish_decode(enqueue_decode(pass), pass);
}

std::span<const float> CudaModel::prefill_and_decode(std::span<const Slice> prefills, DecodePass& decodes) {
  if (mixes(decodes.slices)) return Model::prefill_and_decode(prefills, decodes);
  const Logits decoded = enqueue_decode(decodes);
  const Logits prefilled = enqueue(prefills, Phase::kPrefill);
  finish_decode(decoded, decodes);
  return fetch_prefilled(prefilled, prefills);
}

CudaModel::Logits CudaModel::enqueue_decode(const DecodePass& pass) {
  const auto is_drawn = [](const std::optional<SamplePlan>& plan) { return plan.has_value(); };
  const auto has_mask = [](const std::optional<SamplePlan>& plan) { return plan && plan->masks; };
  // Without grammar masks, sampling is enqueued right after the logits.
  const bool draws_itself = draws() && std::any_of(pass.plans.begin(), pass.plans.end(), is_drawn) &&
                            std::none_of(pass.plans.begin(), pass.plans.end(), has_mask);
  if (draws_itself) draw_.prepare(pass.plans, static_cast<int>(config().vocab));
  Logits logits = enqueue(pass.slices, Phase::kDecode, draws_itself ? &draw_ : nullptr);
  logits.are_drawn = draws_itself;
  return logits;
}

void CudaModel::finish_decode(const Logits& logits, DecodePass& pass) {
  REPRISE_CHECK(static_cast<std::size_t>(logits.count) == pass.plans.size(),
                "the decoded rows and their sampling plans differ in number");
  // Grammar masks are computed while the GPU works. A row whose mask is late, or ends the reply, is not
  // sampled here: its logits go to the host, which waits for the mask without delaying the other rows.
  for (auto& plan : pass.plans) {
    if (!plan || !plan->masks) continue;
    if (!plan->masks->is_masked(plan->step)) {  // no longer constrained
      plan->masks = nullptr;
      continue;
    }
    const SharedMask mask = plan->masks->at(plan->step);
    if (mask == nullptr || mask->ends) plan.reset();
  }
  std::vector<int> kept;  // rows whose logits go to the host
  for (int i = 0; i < logits.count; ++i) {
    if (!draws() || !pass.plans[static_cast<std::size_t>(i)]) kept.push_back(i);
  }
  if (!logits.are_drawn && kept.size() < pass.plans.size()) {
    draw_.launch(logits.rows, head_.outputs(), static_cast<int>(config().vocab), pass.plans,
                 decode_.stream.handle());
  }
  pass.logits = fetch(logits, kept, Phase::kDecode);
  pass.drawn = kept.size() < pass.plans.size()
                   ? draw_.results(pass.plans)
                   : std::vector<std::optional<DecodePass::Drawn>>(pass.plans.size());
}

// Preparing and enqueuing passes: memory, launches, CUDA graphs.

std::size_t CudaModel::workspace(const StepSize& size, int picked_rows, int rank) const {
  const std::size_t hidden = config().hidden;
  std::size_t most = 0;
  for (const ResidualStep& step : steps_) most = std::max(most, step.workspace(size, hidden));
  const auto picked = static_cast<std::size_t>(picked_rows);
  const std::size_t kept = handed_on_ + (has_late_ ? hidden : 0);  // per row, besides the residual
  const std::size_t left = defers_norm_ ? hidden : 0;              // deferred-norm rows for the next step
  return most + Workspace::rounded(size.padded() * left * sizeof(gc::Bf16)) +
         Workspace::rounded(size.padded() * left / 8 * sizeof(float)) +
         Workspace::rounded(size.padded() * hidden * sizeof(float)) + size.padded() * kept * sizeof(float) +
         2 * Workspace::kAlignment + ropes_.workspace(size.rows) +
         PickedRows::workspace(picked, hidden, size) +
         (precise_ ? 2 * Workspace::rounded(size.padded() * static_cast<std::size_t>(weights_.max_columns()) *
                                            sizeof(gc::Bf16))
                   : 0) +
         Workspace::rounded(picked * static_cast<std::size_t>(head_.outputs()) * sizeof(float)) +
         Workspace::rounded(size.padded() * static_cast<std::size_t>(rank) * sizeof(float)) +
         Workspace::rounded(size.padded() * static_cast<std::size_t>(weights_.max_ordered()) *
                            sizeof(gc::Bf16));
}

void CudaModel::embed(const CudaStep& step, float* x) const {
  const int rows = step.size.rows;
  const float multiplier = config().embedding_multiplier;
  if (first_norm_ && step.unscaled.x != nullptr) {
    gc::embed_bf16_to_residual(step.batch.tokens, rows, embedding_.weight, multiplier, x,
                               first_norm_->into(step.unscaled), ropes_.rows_of(step.batch, step.ropes, 0),
                               step.stream);
    return ropes_.make(step.batch, step.ropes, 1, step.stream);
  }
  ropes_.make(step.batch, step.ropes, 0, step.stream);
  const auto hidden = static_cast<int>(config().hidden);
  gc::embed(step.batch.tokens, rows, embedding_.weight, x, step.stream);
  if (multiplier != 1) gc::scale(x, rows, hidden, multiplier, 0, step.stream);
  if (embedding_norm_) gc::norm_in_place(x, rows, hidden, embedding_norm_->rows(), step.stream);
}

CudaStep CudaModel::step_of(const Pass& pass, Phase phase) {
  const Buffers& buffers = pass.buffers;
  return {.phase = phase,
          .batch = pass.made.batch,
          .gemm = gemm_,
          .workspace = pass.context.workspace,
          .stream = pass.context.stream.handle(),
          .size = pass.made.size,
          .ropes = buffers.ropes,
          .adapters = pass.chosen.rows,
          .inner = buffers.inner,
          .ordered = buffers.ordered,
          .terms = buffers.terms,
          .first_values = buffers.first_values,
          .late = buffers.late,
          .staging = &pass.context.staging,
          .rings = pass.made.rings,
          .unscaled = buffers.unscaled,
          .exports = pass.made.exports};
}

void CudaModel::launch(const Pass& pass, Phase phase) {
  const CudaStep step = step_of(pass, phase);
  embed(step, pass.buffers.x);
  for (const ResidualStep& one : steps_) one.apply(step, pass.buffers.x, config().hidden);
  if (pass.made.picked_rows == 0) return;
  const PickedRows picked{
      .rows = pass.made.picked, .count = pass.made.picked_rows, .adapters = pass.chosen.picked};
  head_.apply(step, pass.buffers.x, picked, pass.buffers.logits);
}

// Returns a key of everything that the launches of a step depend on, or nullopt if the step cannot be
// recorded.
std::optional<std::uint64_t> CudaModel::recording_key(const Pass& pass, Phase phase, bool draws) const {
  // The launches for adapters depend on which ones are present; work on the host is no launch.
  if (!pass.chosen.rows.empty() || host_experts_ != nullptr) return std::nullopt;
  const BatchUpload::Made& made = pass.made;
  if (phase == Phase::kDecode) {
    if (made.picked_rows != made.size.rows || made.size.rows > kMaxRecordedDecodes) return std::nullopt;
    return (draws ? kKeyDraws : 0) | key_number(made.size.longest) << 16 | key_number(made.size.rows);
  }
  const int slices = made.batch.slice_count;
  if (slices > kMaxRecordedSlices || made.picked_rows > slices) return std::nullopt;
  return kKeyOfPrefill | (made.rings != nullptr ? kKeyRemembers : 0) | key_width(made.size.longest) << 56 |
         key_number(made.size.tiles) << 40 | key_number(made.size.rows / gc::kGrid) << 16 |
         key_number(slices) << 8 | key_number(made.picked_rows);
}

CudaModel::Pass CudaModel::prepare(PhaseContext& context, std::span<const Slice> slices, Phase phase) {
  Workspace& memory = context.workspace;
  Pass pass{.context = context,
            .made = context.upload.make(slices, phase),
            .chosen = choose(slices),
            .buffers = {}};
  BatchUpload::Made& made = pass.made;
  made.size.precise = precise_;
  memory.reset();
  const PhaseContext::Space space{
      .size = made.size, .picked_rows = made.picked_rows, .rank = pass.chosen.max_rank};
  if (context.space_bytes == 0 || context.space != space) {
    context.space = space;
    context.space_bytes = workspace(space.size, space.picked_rows, space.rank);
  }
  memory.reserve(context.space_bytes);
  const std::size_t rows = made.size.padded();
  const std::size_t elements = rows * config().hidden;
  Buffers& buffers = pass.buffers;
  buffers.x = memory.take<float>(elements);
  buffers.ropes = ropes_.take(memory, made.size.rows);
  buffers.logits = memory.take<float>(static_cast<std::size_t>(made.picked_rows) *
                                      static_cast<std::size_t>(head_.outputs()));
  if (defers_norm_ && phase == Phase::kDecode && pass.chosen.rows.empty()) {
    buffers.unscaled = {.x = memory.take<gc::Bf16>(elements), .squares = memory.take<float>(elements / 8)};
  }
  if (weights_.max_ordered() > 0) {
    buffers.ordered = memory.take<gc::Bf16>(rows * static_cast<std::size_t>(weights_.max_ordered()));
  }
  if (precise_) {
    const std::size_t most = rows * static_cast<std::size_t>(weights_.max_columns());
    buffers.terms = {.high = memory.take<gc::Bf16>(most), .low = memory.take<gc::Bf16>(most)};
  }
  if (handed_on_ > 0) buffers.first_values = memory.take<float>(rows * handed_on_);
  if (has_late_) buffers.late = memory.take<float>(elements);
  if (pass.chosen.max_rank > 0) {
    buffers.inner = memory.take<float>(rows * static_cast<std::size_t>(pass.chosen.max_rank));
  }
  return pass;
}

CudaModel::Logits CudaModel::enqueue(std::span<const Slice> slices, Phase phase, DeviceSampler* draw) {
  traces::follow_gpu();
  for (const Slice& slice : slices) {
    for (const TokenId token : slice.tokens) {
      REPRISE_CHECK(token >= 0 && static_cast<std::size_t>(token) < config().vocab,
                    "a token is outside the vocabulary");
    }
  }
  PhaseContext& context = context_of(phase);
  const gc::StreamHandle stream = context.stream.handle();
  const Pass pass = prepare(context, slices, phase);
  context.is_timed = traces::on();
  if (context.is_timed) context.stopwatch.start(stream);
  REPRISE_CHECK(draw == nullptr || draw->rows() == pass.made.picked_rows,
                "the sampled rows and the rows with logits differ in number");
  const std::optional<std::uint64_t> key = recording_key(pass, phase, draw != nullptr);
  // A recorded graph includes the copy of the batch description if that is small: one launch instead of two.
  const bool copies_in_graph = key && BatchUpload::fits_recording(pass.made);
  if (!copies_in_graph) context.upload.copy_to_gpu(pass.made.bytes, stream);
  const auto all = [&] {
    if (copies_in_graph) context.upload.copy_to_gpu(pass.made.max_bytes, stream);
    launch(pass, phase);
    if (draw != nullptr) draw->launch(pass.buffers.logits, head_.outputs(), stream);
  };
  if (key) {
    context.forget_moved(phase == Phase::kDecode ? draw_.moves() : 0);
    context.recordings.run(*key, stream, all);
  } else {
    all();
  }
  for (const Slice& slice : slices) {
    const std::size_t begin = slice.sequence->logical();
    slice.sequence->advance(slice.tokens.size());
    if (slice.tail != nullptr) slice.tail->note(begin, slice.sequence->logical());
  }
  return {.rows = pass.buffers.logits, .count = pass.made.picked_rows};
}

// Separate passes for decoded rows with and without adapters (mixes()).

bool CudaModel::mixes(std::span<const Slice> slices) const {
  const auto has_adapter = [](const Slice& slice) { return slice.adapter != 0; };
  return defers_norm_ && std::any_of(slices.begin(), slices.end(), has_adapter) &&
         !std::all_of(slices.begin(), slices.end(), has_adapter);
}

std::span<const float> CudaModel::forward_apart(std::span<const Slice> slices) {
  const std::size_t vocab = config().vocab;
  RowsByIndex rows(slices.size());
  for (const std::vector<std::size_t>& group : groups_of(slices)) {
    std::vector<Slice> some;
    for (const std::size_t index : group) some.push_back(slices[index]);
    std::span<const float> logits = forward(some, Phase::kDecode);
    for (const std::size_t index : group) {
      if (slices[index].logits == Slice::Logits::kNone) continue;
      rows.put(index, logits.first(vocab));
      logits = logits.subspan(vocab);
    }
  }
  rows.move_to(apart_);
  return apart_;
}

void CudaModel::decode_apart(DecodePass& pass) {
  const std::size_t vocab = config().vocab;
  RowsByIndex rows(pass.slices.size());
  pass.drawn.assign(pass.slices.size(), std::nullopt);
  for (const std::vector<std::size_t>& group : groups_of(pass.slices)) {
    DecodePass some;
    for (const std::size_t index : group) {
      some.slices.push_back(pass.slices[index]);
      some.plans.push_back(pass.plans[index]);
    }
    decode(some);
    std::span<const float> logits = some.logits;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::size_t index = group[i];
      pass.plans[index] = some.plans[i];
      pass.drawn[index] = some.drawn[i];
      if (some.drawn[i]) continue;
      rows.put(index, logits.first(vocab));
      logits = logits.subspan(vocab);
    }
  }
  rows.move_to(apart_);
  pass.logits = apart_;
}

}  // namespace reprise::models::cuda
