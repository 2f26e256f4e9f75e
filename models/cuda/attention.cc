#include <optional>

#include "base/check.h"
#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/attention/kv_selection.h"
#include "models/cuda/part.h"
#include "models/files/load_error.h"
#include "models/weight_tensors.h"

namespace reprise::models::cuda {
namespace {

class Attention : public MixerOfRows<Attention> {
 public:
  Attention(const AttentionSpec& spec, const ModelFiles& files, gpu::KvType kv, WeightStore& weights,
            StateLayout& state, RopeTables& ropes);
  std::size_t compaction_workspace(std::size_t tokens, const KvBudget& budget) const override;
  void compact(const CudaCompaction& prompt) const override;

 private:
  friend class MixerOfRows<Attention>;
  std::size_t mixing_workspace(const StepSize& size) const override;
  template <class Row>
  void mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const;

  gc::AttentionShape shape_;
  std::size_t queries_ = 0;  // offset of q in a row of the prompt's tail
  const float* q_norm_ = nullptr;
  const float* k_norm_ = nullptr;
  std::optional<std::size_t> rope_;  // index of its table in CudaStep::ropes; none: no RoPE
};

Attention::Attention(const AttentionSpec& spec, const ModelFiles& files, gpu::KvType kv, WeightStore& weights,
                     StateLayout& state, RopeTables& ropes)
    : MixerOfRows(weights.linear({spec.name + ".q_proj", spec.name + ".k_proj", spec.name + ".v_proj"}),
                  weights.linear({spec.name + ".o_proj"}), Norms::kInProducts) {
  const AttentionOffsets offsets = declare_state(spec, kv, state, sizeof(gc::Bf16));
  queries_ = offsets.queries;
  const NormKind norm = spec.head_norm.value_or(NormKind{});
  shape_ = {.heads = static_cast<int>(spec.heads),
            .kv_heads = static_cast<int>(spec.kv_heads),
            .head_dim = static_cast<int>(spec.head_dim),
            .rope_pairs = static_cast<int>(spec.rope_pairs()),
            .score_multiplier = spec.score_multiplier,
            .qk_norm = spec.head_norm.has_value(),
            .output_gate = spec.output_gate,
            .norm_offset = norm.offset,
            .norm_eps = norm.eps,
            .kv = kv_of(spec, kv),
            .k_offset = offsets.k,
            .v_offset = offsets.v,
            .window = static_cast<int>(spec.window),
            .ring_pages = spec.window == 0 ? 0 : static_cast<int>(spec.ring_pages()),
            .ring_offset = offsets.ring};
  // f32 KV entries are only supported with f32 rows (models/gpu_plan.h).
  const bool wide = shape_.kv == gpu::KvType::kF32;
  if (!(wide ? gc::attention_supports<float>(shape_) : gc::attention_supports<gc::Bf16>(shape_))) {
    throw LoadError(
        files.path(), "head_dim",
        std::to_string(spec.head_dim) + " is not one that the GPU kernels know: 16 to 256, by twos");
  }
  if (spec.rope) rope_ = ropes.add(spec.rope, weights);
  if (!spec.head_norm) return;
  q_norm_ = weights.vector(load_vector(files, spec.name + ".q_norm.weight"));
  k_norm_ = weights.vector(load_vector(files, spec.name + ".k_norm.weight"));
}

std::size_t Attention::mixing_workspace(const StepSize& size) const {
  const auto bytes = size.precise ? gc::attention_workspace<float> : gc::attention_workspace<gc::Bf16>;
  return bytes(shape_, size.rows, size.tiles, size.longest) + Workspace::kAlignment;
}

template <class Row>
void Attention::mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const {
  std::byte* inside = step.workspace.bytes(
      gc::attention_workspace<Row>(shape_, step.size.rows, step.size.tiles, step.size.longest));
  const gc::AttentionPass<Row> pass{.projected = projected,
                                    .stride = in().weight.rows,
                                    .q_norm = q_norm_,
                                    .k_norm = k_norm_,
                                    .rope_cos = rope_ ? step.ropes[*rope_].cosine : nullptr,
                                    .rope_sin = rope_ ? step.ropes[*rope_].sine : nullptr,
                                    .out = mixed,
                                    .workspace = inside,
                                    .exports = step.exports};
  if (step.phase == Phase::kPrefill) {
    gc::attention_prefill(shape_, step.batch, pass, step.stream);
  } else {
    gc::attention_decode(shape_, step.batch, pass, step.stream);
  }
  if (step.rings == nullptr || shape_.window != 0) return;
  REPRISE_CHECK(step.phase == Phase::kPrefill, "queries for compaction were requested while decoding");
  gc::remember_queries(shape_, step.batch, pass, step.rings, queries_, step.stream);
}

std::size_t Attention::compaction_workspace(std::size_t tokens, const KvBudget& budget) const {
  return shape_.window != 0 ? 0 : gc::CompactionSpace::bytes(shape_, tokens, budget);
}

void Attention::compact(const CudaCompaction& prompt) const {
  if (shape_.window != 0) return;
  const auto tokens = static_cast<std::size_t>(prompt.tokens);
  Workspace& workspace = prompt.workspace;
  const std::size_t mark = workspace.mark();
  std::byte* memory = workspace.bytes(gc::CompactionSpace::bytes(shape_, tokens, prompt.budget));
  const auto space = gc::CompactionSpace::of(shape_, tokens, prompt.budget, memory);
  const gc::PromptOfLayer layer{.shape = shape_,
                                .queries = queries_,
                                .pages = prompt.pages,
                                .into = prompt.into,
                                .tokens = prompt.tokens,
                                .scored = prompt.tokens - static_cast<int>(prompt.budget.window),
                                .ring = prompt.ring,
                                .budget = prompt.budget};
  gc::score_entries(layer, space, prompt.stream);
  gc::choose_entries(layer, space, prompt.stream);
  gc::gather_entries(layer, space, prompt.stream);
  workspace.reset(mark);
}

}  // namespace

std::unique_ptr<Part> make_part(const AttentionSpec& spec, BuildContext& context) {
  return std::make_unique<Attention>(spec, context.files, context.kv, context.weights, context.state,
                                     context.ropes);
}

}  // namespace reprise::models::cuda
