// Multi-head latent attention on the GPU (models/parts/mla.h), with absorbed projections as in
// models/cpu/mla.cc: keys and values are never materialized.

#include <optional>
#include <vector>

#include "gpu/cuda/attention/latent.h"
#include "gpu/cuda/gemm/small_products.h"
#include "gpu/cuda/rows/rows.h"
#include "models/cuda/part.h"
#include "models/files/load_error.h"
#include "models/weight_tensors.h"

namespace reprise::models::cuda {
namespace {

/// kv_b_proj [heads, keys and values, rank], split: keys [heads, plain_dim, rank] as stored, values
/// transposed, [heads, rank, value_dim].
struct HeadMatrices {
  std::vector<float> keys;
  std::vector<float> values;
};

HeadMatrices take_apart(const std::vector<float>& both, const MlaSpec& spec) {
  HeadMatrices out;
  const std::size_t rank = spec.rank;
  for (std::size_t head = 0; head < spec.heads; ++head) {
    const float* rows = both.data() + head * (spec.plain_dim + spec.value_dim) * rank;
    const float* values = rows + spec.plain_dim * rank;
    out.keys.insert(out.keys.end(), rows, values);
    for (std::size_t i = 0; i < rank; ++i) {
      for (std::size_t j = 0; j < spec.value_dim; ++j) out.values.push_back(values[j * rank + i]);
    }
  }
  return out;
}

class Mla : public PartOfRows<Mla> {
 public:
  Mla(const MlaSpec& spec, const ModelFiles& files, gpu::KvType kv, WeightStore& weights, StateLayout& state,
      RopeTables& ropes);
  std::size_t workspace(const StepSize& size) const override;
  void admit(const Admission& admission, gc::GemmOutput output) const override;
  std::vector<const DeviceLinear*> adaptable() const override;

 private:
  friend class PartOfRows<Mla>;
  template <class Row>
  void apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const;
  template <class Row>
  void project_queries(const CudaStep& step, const PartInput& x, Row* queries) const;

  gc::LatentShape shape_;
  DeviceLinear q_;                   // input: x, or the query latent
  std::optional<DeviceLinear> q_a_;  // projection to the query latent; none: no latent
  gc::RowNorm q_norm_{};
  DeviceLinear kv_a_;
  const float* norm_ = nullptr;  // [rank], times latent_scale
  gc::BlockWeights keys_;
  gc::BlockWeights values_;
  DeviceLinear out_;
  std::optional<std::size_t> rope_;  // index of its table in CudaStep::ropes; none: no RoPE
};

Mla::Mla(const MlaSpec& spec, const ModelFiles& files, gpu::KvType kv, WeightStore& weights,
         StateLayout& state, RopeTables& ropes)
    : q_(weights.linear({spec.name + (spec.q_rank == 0 ? ".q_proj" : ".q_b_proj")})),
      kv_a_(weights.linear({spec.name + ".kv_a_proj_with_mqa"})),
      out_(weights.linear({spec.name + ".o_proj"})) {
  shape_ = {.heads = static_cast<int>(spec.heads),
            .plain_dim = static_cast<int>(spec.plain_dim),
            .rotary_dim = static_cast<int>(spec.rotary_dim),
            .rank = static_cast<int>(spec.rank),
            .rope_pairs = spec.rope ? static_cast<int>(spec.rope->dimension / 2) : 0,
            .neighbors = spec.rope_of_neighbors,
            .score_scale = spec.score_scale,
            .norm_offset = spec.norm.offset,
            .norm_eps = spec.norm.eps,
            .kv = kv_of(spec, kv),
            .offset = declare_state(spec, kv, state)};
  // f32 latents are only supported with f32 rows (models/gpu_plan.h).
  const bool wide = shape_.kv == gpu::KvType::kF32;
  if (!(wide ? gc::latent_supports<float>(shape_) : gc::latent_supports<gc::Bf16>(shape_))) {
    throw LoadError(files.path(), "kv_lora_rank", "latents of this size are not supported on a GPU");
  }
  if (spec.rope) rope_ = ropes.add(spec.rope, weights);
  if (spec.q_rank != 0) {
    q_a_ = weights.linear({spec.name + ".q_a_proj"});
    q_norm_ = {.weight = weights.vector(load_vector(files, spec.name + ".q_a_layernorm.weight")),
               .offset = spec.norm.offset,
               .eps = spec.norm.eps};
  }
  std::vector<float> norm = load_vector(files, spec.name + ".kv_a_layernorm.weight");
  for (float& weight : norm) weight *= spec.latent_scale;
  norm_ = weights.vector(norm);
  const HeadMatrices heads = take_apart(load_vector(files, spec.name + ".kv_b_proj.weight"), spec);
  keys_ = {.blocks = shape_.heads,
           .inputs = shape_.plain_dim,
           .outputs = shape_.rank,
           .weight = weights.vector(heads.keys)};
  values_ = {.blocks = shape_.heads,
             .inputs = shape_.rank,
             .outputs = static_cast<int>(spec.value_dim),
             .weight = weights.vector(heads.values)};
}

std::size_t Mla::workspace(const StepSize& size) const {
  const auto heads = static_cast<std::size_t>(shape_.heads);
  const auto rows_of = [](const DeviceLinear& linear) {
    return static_cast<std::size_t>(linear.weight.rows);
  };
  std::size_t halves = rows_of(q_) + heads * static_cast<std::size_t>(shape_.compared() + shape_.rank) +
                       static_cast<std::size_t>(out_.weight.columns);
  std::size_t floats = rows_of(kv_a_);
  if (q_a_) {
    halves += static_cast<std::size_t>(q_.weight.columns);
    floats += rows_of(*q_a_);
  }
  return size.padded() * (halves * size.element() + floats * sizeof(float)) + 8 * Workspace::kAlignment +
         (size.precise ? gc::latent_workspace<float>
                       : gc::latent_workspace<gc::Bf16>)(shape_, size.rows, size.tiles, size.longest);
}

template <class Row>
void Mla::project_queries(const CudaStep& step, const PartInput& x, Row* queries) const {
  if (!q_a_) return step.multiply(x, q_, queries, kRowsOf<Row>);
  const std::size_t rows = step.size.padded();
  auto* made = step.workspace.take<float>(rows * static_cast<std::size_t>(q_a_->weight.rows));
  auto* latent = step.workspace.take<Row>(rows * static_cast<std::size_t>(q_.weight.columns));
  step.multiply(x, *q_a_, made, gc::GemmOutput::kF32);
  gc::rms_norm(made, nullptr, step.size.rows, q_.weight.columns, q_norm_, 1, latent, step.stream);
  step.multiply(latent, q_, queries, kRowsOf<Row>);
}

template <class Row>
void Mla::apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t rows = step.size.padded();
  const auto heads = static_cast<std::size_t>(shape_.heads);
  const auto compared_dim = static_cast<std::size_t>(shape_.compared());
  const auto rank = static_cast<std::size_t>(shape_.rank);
  const auto value_dim = static_cast<std::size_t>(values_.outputs);
  auto* queries = workspace.take<Row>(rows * static_cast<std::size_t>(q_.weight.rows));
  auto* compared = workspace.take<Row>(rows * heads * compared_dim);
  auto* made = workspace.take<float>(rows * static_cast<std::size_t>(kv_a_.weight.rows));
  auto* sums = workspace.take<Row>(rows * heads * rank);
  auto* mixed = workspace.take<Row>(rows * static_cast<std::size_t>(out_.weight.columns));
  std::byte* inside =
      workspace.bytes(gc::latent_workspace<Row>(shape_, step.size.rows, step.size.tiles, step.size.longest));
  project_queries(step, x, queries);
  step.multiply(x, kv_a_, made, gc::GemmOutput::kF32);
  gc::block_product(keys_, step.size.rows,
                    gc::BlockRows<const Row>{queries, static_cast<std::size_t>(q_.weight.rows),
                                             static_cast<std::size_t>(shape_.plain_dim + shape_.rotary_dim)},
                    gc::BlockRows<Row>{compared, heads * compared_dim, compared_dim}, step.stream);
  gc::latent_attention(shape_, step.batch,
                       gc::LatentPass<Row>{.queries = queries,
                                           .query_stride = q_.weight.rows,
                                           .made = made,
                                           .made_stride = kv_a_.weight.rows,
                                           .norm = norm_,
                                           .rope_cos = rope_ ? step.ropes[*rope_].cosine : nullptr,
                                           .rope_sin = rope_ ? step.ropes[*rope_].sine : nullptr,
                                           .compared = compared,
                                           .out = sums,
                                           .workspace = inside},
                       step.stream);
  gc::block_product(values_, step.size.rows, gc::BlockRows<const Row>{sums, heads * rank, rank},
                    gc::BlockRows<Row>{mixed, heads * value_dim, value_dim}, step.stream);
  step.multiply(mixed, out_, to.y, to.how);
  workspace.reset(mark);
}

void Mla::admit(const Admission& admission, gc::GemmOutput output) const {
  if (q_a_) admission.admit(*q_a_, gc::GemmOutput::kF32);
  admission.admit(q_, gc::GemmOutput::kBf16);
  admission.admit(kv_a_, gc::GemmOutput::kF32);
  admission.admit(out_, output);
}

std::vector<const DeviceLinear*> Mla::adaptable() const {
  std::vector<const DeviceLinear*> out{&q_, &kv_a_, &out_};
  if (q_a_) out.push_back(&*q_a_);
  return out;
}

}  // namespace

std::unique_ptr<Part> make_part(const MlaSpec& spec, BuildContext& context) {
  return std::make_unique<Mla>(spec, context.files, context.kv, context.weights, context.state,
                               context.ropes);
}

}  // namespace reprise::models::cuda
