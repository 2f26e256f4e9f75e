#include "models/cuda/model.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"
#include "gpu/cuda/sampling.h"
#include "gpu/devices.h"
#include "models/cuda/layer_factory.h"
#include "models/cuda/precision.h"
#include "models/files/load_error.h"
#include "models/gpu_plan.h"
#include "models/gpu_refusal.h"
#include "traces/gpu_timeline.h"
#include "traces/trace.h"

namespace reprise::models::cuda {
namespace {

constexpr const char* kHeadInAdapters = "lm_head";

std::set<std::string> mixtures_on_host(const Checkpoint& checkpoint, std::uint32_t cpu_experts) {
  try {
    return experts_on_host(checkpoint.config(), cpu_experts);
  } catch (const SettingError& error) {
    throw LoadError(checkpoint.path(), "", error.what());
  }
}

}  // namespace

std::unique_ptr<CudaModel> CudaModel::load(const std::filesystem::path& path, const ComputeOptions& options,
                                           gc::Arena& arena, const Place& place) {
  return std::make_unique<CudaModel>(Checkpoint::open(path), options, arena, place);
}

CudaModel::CudaModel(Checkpoint checkpoint, const ComputeOptions& options, gc::Arena& arena,
                     const Place& place)
    : Model(std::move(checkpoint), options),
      device_(place.device),
      precise_(computes_precisely(checkpoint_, options, place.cpu_experts != 0)),
      weights_(checkpoint_, arena),
      handed_on_(handed_on(config().layers)),
      memory_(place.memory) {
  if (const auto refusal = gpu_refusal(options)) throw LoadError(checkpoint_.path(), "", *refusal);
  const std::set<std::string> on_host = mixtures_on_host(checkpoint_, place.cpu_experts);
  if (!on_host.empty()) host_experts_ = std::make_unique<HostExperts>(options, place.threads);
  embedding_ = weights_.linear({config().embedding});
  LayerFactory factory(checkpoint_, options.kv, weights_, state_, ropes_,
                       {.names = on_host, .experts = host_experts_.get()});
  for (const LayerSpec& layer : config().layers) {
    for (ResidualStep& step : factory.build(layer)) steps_.push_back(std::move(step));
  }
  if (config().embedding_norm) embedding_norm_ = factory.build_norm(*config().embedding_norm);
  head_.norm = factory.build_norm(config().final_norm);
  head_.linear = config().tied() ? embedding_ : weights_.linear({config().head});
  head_.linear.layers = {{kHeadInAdapters, 0}};  // also where it is the embedding
  head_.multiplier = config().logit_multiplier;
  head_.cap = config().logit_cap.value_or(0);
  weights_.finish();
  join_steps();
  for (const ResidualStep& step : steps_) {
    step.admit({.gemm = gemm_, .most_rows = place.most_rows, .precise = precise_});
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
    leaves_rows_ = true;
  }
  const auto join = [&](ResidualStep& step, auto& next) {
    if (!step.can_leave_rows() || !next.can_read_unscaled()) return;
    step.leave_for(next.read_unscaled());
    leaves_rows_ = true;
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
      out.largest_rank = std::max(out.largest_rank, adapter.largest_rank());
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
  return config().vocab <= static_cast<std::size_t>(gc::kMostVocab);
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

// Waits for the pass.
std::span<const float> CudaModel::fetch(const Logits& logits, std::span<const int> rows, Phase phase) {
  const std::size_t vocab = config().vocab;
  Lane& lane = lane_of(phase);
  gc::PinnedBytes& to = lane.logits;
  const std::size_t row_bytes = vocab * sizeof(float);
  if (rows.size() * row_bytes > to.size()) to = gc::PinnedBytes(std::bit_ceil(rows.size() * row_bytes));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float* from =
        logits.rows + static_cast<std::size_t>(rows[i]) * static_cast<std::size_t>(head_.outputs());
    gc::copy_to_host(to.data() + i * row_bytes, reinterpret_cast<const std::byte*>(from), row_bytes,
                     lane.stream.handle());
  }
  if (lane.is_timed) lane.stopwatch.stop(lane.stream.handle());
  lane.stream.wait();
  show_on_gpu(phase);
  return {reinterpret_cast<const float*>(to.data()), rows.size() * vocab};
}

// What the GPU did while the host waited for it; its clock is not the host's, so the pass ends where the wait does.
void CudaModel::show_on_gpu(Phase phase) {
  if (!lane_of(phase).is_timed) return;
  static constexpr traces::ZoneSite kPrefill{"prefill pass"};
  static constexpr traces::ZoneSite kDecode{"decode pass"};
  const std::int64_t end = traces::now_ns();
  const auto length = static_cast<std::int64_t>(lane_of(phase).stopwatch.milliseconds() * 1e6);
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
  std::vector<std::optional<DrawPlan>> plans;  // of the rows of logits
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

std::span<const float> CudaModel::prefill_beside(std::span<const Slice> prefills, DecodePass& decodes) {
  if (mixes(decodes.slices)) return Model::prefill_beside(prefills, decodes);
  const Logits decoded = enqueue_decode(decodes);
  const Logits prefilled = enqueue(prefills, Phase::kPrefill);
  finish_decode(decoded, decodes);
  return fetch_prefilled(prefilled, prefills);
}

CudaModel::Logits CudaModel::enqueue_decode(const DecodePass& pass) {
  const auto is_drawn = [](const std::optional<DrawPlan>& plan) { return plan.has_value(); };
  const auto has_mask = [](const std::optional<DrawPlan>& plan) { return plan && plan->masks; };
  // Where nobody waits for a mask, the choice follows the logits without the host.
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
  // Masks are made while the GPU computes. A row whose mask is late, or says that the reply is whole, is not drawn:
  // its logits go to the host, which waits for the mask without holding up the others.
  for (auto& plan : pass.plans) {
    if (!plan || !plan->masks) continue;
    if (!plan->masks->is_masked(plan->step)) {  // not any more
      plan->masks = nullptr;
      continue;
    }
    const SharedMask mask = plan->masks->at(plan->step);
    if (mask == nullptr || mask->ends) plan.reset();
  }
  std::vector<int> kept;  // rows whose logits are wanted on the host
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

}  // namespace reprise::models::cuda
