// Multi-head latent attention on the CPU (models/parts/mla.h), with absorbed projections: keys and values are
// never materialized.
//
// A query is multiplied by its head's key matrix once, q^T (W_k l) = (W_k^T q)^T l, and scored against the
// latents; their weighted sum is multiplied by the head's value matrix. So all heads share one row of the
// page, as with one KV head, and prefill and decode use one form. Both GEMMs with kv_b_proj are f32 whatever
// the step's compute setting.

#include <algorithm>
#include <cstring>

#include "models/cpu/linear.h"
#include "models/cpu/part.h"
#include "models/cpu/slot_exports.h"
#include "models/files/load_error.h"
#include "models/model_files.h"
#include "models/parts/attention.h"
#include "models/parts/mla.h"
#include "models/weight_tensors.h"

namespace reprise::models::cpu {
namespace {

/// Heads per work item; a page is read once for all of them.
constexpr std::size_t kHeadsOfPart = 4;

std::vector<float> scaled(std::vector<float> values, float factor) {
  for (float& value : values) value *= factor;
  return values;
}

/// Returns a weight that owns the f32 matrix `values` [rows, columns].
gpu::HostWeight owned_matrix(std::vector<float> values, std::size_t rows, std::size_t columns) {
  auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  const gpu::WeightView view{
      .format = &gpu::kF32Format, .rows = rows, .columns = columns, .data = owner->data()};
  return gpu::HostWeight(view, owner);
}

class Mla : public Part {
 public:
  Mla(const MlaSpec& spec, const ModelFiles& files, const ComputeOptions& options, StateLayout& state,
      RopeTables& ropes);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override;
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"latent attention"};
    return kSite;
  }

 private:
  /// Computes queries [rows, heads, key_dim].
  void project_queries(Step& step, LinearInput& x, float* queries) const;
  void store(Step& step, LinearInput& x) const;
  /// Applies the row's RoPE to turned [rotary_dim] in place.
  void rotate(const Step& step, std::size_t row, float* rotated) const;
  /// Multiplies each head by its own matrix: inputs [rows, heads, in_stride], with the matrix's columns as
  /// the leading elements, -> outputs [rows, heads, out_stride].
  void through_heads(Step& step, const std::vector<gpu::HostWeight>& weights, const float* inputs,
                     std::size_t in_stride, float* outputs, std::size_t out_stride) const;

  const MlaSpec spec_;
  const std::size_t rope_;  // index of its table; unused if the spec has no RoPE
  const gpu::KvType kv_;
  Linear q_;    // input: x, or the query latent
  Linear q_a_;  // empty if q_rank is 0
  std::optional<RmsNorm> q_norm_;
  Linear kv_a_;
  RmsNorm norm_;  // includes latent_scale
  Linear o_;
  // f32, one per head
  std::vector<gpu::HostWeight> keys_;    // [rank, plain_dim]: W_k transposed
  std::vector<gpu::HostWeight> values_;  // [value_dim, rank]
  std::size_t offset_;                   // offset in a page
};

Mla::Mla(const MlaSpec& spec, const ModelFiles& files, const ComputeOptions& options, StateLayout& state,
         RopeTables& ropes)
    : spec_(spec),
      rope_(spec.rope ? ropes.add(spec.rope) : 0),
      kv_(kv_of(spec, options.kv)),
      q_(files, spec.name + (spec.q_rank == 0 ? ".q_proj" : ".q_b_proj")),
      kv_a_(files, spec.name + ".kv_a_proj_with_mqa"),
      norm_(scaled(load_vector(files, spec.name + ".kv_a_layernorm.weight"), spec.latent_scale), spec.norm),
      o_(files, spec.name + ".o_proj"),
      offset_(declare_state(spec, options.kv, state)) {
  if (spec.rank > gpu::kMaxAttentionHead) {
    throw LoadError(files.path(), "kv_lora_rank",
                    "must be at most " + std::to_string(gpu::kMaxAttentionHead));
  }
  if (spec.rotary_dim > gpu::kMaxAttentionHead) {
    throw LoadError(files.path(), "qk_rope_head_dim",
                    "must be at most " + std::to_string(gpu::kMaxAttentionHead));
  }
  if (spec.q_rank != 0) {
    q_a_ = Linear(files, spec.name + ".q_a_proj");
    q_norm_.emplace(files, NormSpec{spec.name + ".q_a_layernorm", spec.q_rank, spec.norm});
  }
  const std::vector<float> both = load_vector(files, spec.name + ".kv_b_proj.weight");
  const std::size_t rank = spec.rank;
  for (std::size_t head = 0; head < spec.heads; ++head) {
    const float* rows = both.data() + head * (spec.plain_dim + spec.value_dim) * rank;
    std::vector<float> transposed(rank * spec.plain_dim);
    for (std::size_t i = 0; i < spec.plain_dim; ++i) {
      for (std::size_t j = 0; j < rank; ++j) transposed[j * spec.plain_dim + i] = rows[i * rank + j];
    }
    keys_.push_back(owned_matrix(std::move(transposed), rank, spec.plain_dim));
    const float* first = rows + spec.plain_dim * rank;
    values_.push_back(owned_matrix({first, first + spec.value_dim * rank}, spec.value_dim, rank));
  }
}

void Mla::prepare(const Preparation& how) const {
  for (const Linear* linear : {&q_, &kv_a_, &o_}) linear->prepare(how);
  if (spec_.q_rank != 0) q_a_.prepare(how);
}

void Mla::rotate(const Step& step, std::size_t row, float* rotated) const {
  if (!spec_.rope) return;
  const std::size_t half = spec_.rotary_dim / 2;
  if (spec_.rope_of_neighbors) {
    float apart[gpu::kMaxAttentionHead];
    for (std::size_t i = 0; i < half; ++i) {
      apart[i] = rotated[2 * i];
      apart[half + i] = rotated[2 * i + 1];
    }
    std::memcpy(rotated, apart, spec_.rotary_dim * sizeof(float));
  }
  const RopeTable& rope = step.ropes[rope_];
  const std::size_t pairs = spec_.rope->dimension / 2;
  step.kernels.rope(rotated, rope.cosine + row * pairs, rope.sine + row * pairs, pairs);
}

void Mla::project_queries(Step& step, LinearInput& x, float* queries) const {
  const std::size_t rows = x.rows();
  if (spec_.q_rank == 0) {
    q_.apply(step, x, queries);
  } else {
    float* latent = step.scratch.floats(rows * spec_.q_rank);  // kept: x may cache forms after it
    q_a_.apply(step, x, latent);
    q_norm_->apply(step, latent, rows, latent);
    q_.apply(step, latent, rows, queries);
  }
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      for (std::size_t head = 0; head < spec_.heads; ++head) {
        rotate(step, row, queries + (row * spec_.heads + head) * spec_.key_dim() + spec_.plain_dim);
      }
    }
  });
}

void Mla::store(Step& step, LinearInput& x) const {
  const std::size_t size = spec_.stored_dim();
  float* made = step.scratch.floats(x.rows() * size);  // [rows, rank + rotary_dim]
  kv_a_.apply(step, x, made);
  step.threads.for_ranges(x.rows(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      float* latent = made + row * size;
      norm_.apply_here(step.kernels, latent, 1, latent);
      rotate(step, row, latent + spec_.rank);
    }
  });
  for (const StepSlice& slice : step.slices) {
    for (std::size_t i = 0; i < slice.rows; ++i) {
      const std::size_t position = slice.stored + i;
      const float* from = made + (slice.first_row + i) * size;
      std::byte* page = slice.sequence->page_data(position / gpu::kPageTokens) + offset_;
      const std::size_t index = position % gpu::kPageTokens * size;
      if (kv_ == gpu::KvType::kF32) {
        std::memcpy(reinterpret_cast<float*>(page) + index, from, size * sizeof(float));
      } else {
        step.kernels.to_bf16(from, reinterpret_cast<std::uint16_t*>(page) + index, size);
      }
    }
  }
  export_tails(step, offset_, 1, gpu::kv_row_bytes(kv_, size));
}

void Mla::through_heads(Step& step, const std::vector<gpu::HostWeight>& weights, const float* inputs,
                        std::size_t in_stride, float* outputs, std::size_t out_stride) const {
  const std::size_t heads = spec_.heads;
  const gpu::WeightView& any = weights.front().view();
  const gpu::Product& product = step.kernels.format(*any.format).exact;
  float* gathered = step.scratch.floats(heads * step.rows * any.columns);  // [heads, rows, columns]
  step.threads.for_parts(heads, [&](std::size_t head) {
    const gpu::WeightView& weight = weights[head].view();
    float* own = gathered + head * step.rows * weight.columns;
    for (std::size_t row = 0; row < step.rows; ++row) {
      std::memcpy(own + row * weight.columns, inputs + (row * heads + head) * in_stride,
                  weight.columns * sizeof(float));
    }
    product.multiply(own, step.rows, weight, outputs + head * out_stride, heads * out_stride, 0, weight.rows);
  });
}

void Mla::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t rows = step.rows;
  const std::size_t heads = spec_.heads;
  const std::size_t stored = spec_.stored_dim();
  float* queries = step.scratch.floats(rows * heads * spec_.key_dim());
  float* compared = step.scratch.floats(rows * heads * stored);  // queries in latent space
  LinearInput input(x, rows);
  project_queries(step, input, queries);
  store(step, input);
  through_heads(step, keys_, queries, spec_.key_dim(), compared, stored);
  for (std::size_t head = 0; head < rows * heads; ++head) {
    std::memcpy(compared + head * stored + spec_.rank, queries + head * spec_.key_dim() + spec_.plain_dim,
                spec_.rotary_dim * sizeof(float));
  }
  const std::size_t shares = (heads + kHeadsOfPart - 1) / kHeadsOfPart;
  float* sums = step.scratch.floats(rows * heads * spec_.rank);  // weighted sums of latents
  for (const StepSlice& slice : step.slices) {
    const std::size_t blocks = (slice.rows + gpu::kAttentionRows - 1) / gpu::kAttentionRows;
    step.threads.for_parts(blocks * shares, [&](std::size_t part) {
      const std::size_t i = part / shares * gpu::kAttentionRows;
      const std::size_t head = part % shares * kHeadsOfPart;
      const std::size_t first = (slice.first_row + i) * heads + head;
      step.kernels.attention({.q = compared + first * stored,
                              .out = sums + first * spec_.rank,
                              .rows = std::min(gpu::kAttentionRows, slice.rows - i),
                              .q_stride = heads * stored,
                              .out_stride = heads * spec_.rank,
                              .group = std::min(kHeadsOfPart, heads - head),
                              .head_dim = stored,
                              .value_dim = spec_.rank,
                              .length = slice.stored + i + 1,
                              .scale = spec_.score_scale,
                              .pages = slice.pages.data(),
                              .k_offset = offset_,
                              .v_offset = offset_,
                              .kv = kv_});
    });
  }
  float* mixed = step.scratch.floats(rows * heads * spec_.value_dim);
  through_heads(step, values_, sums, spec_.rank, mixed, spec_.value_dim);
  o_.apply(step, mixed, rows, y);
  step.scratch.reset(mark);
}

}  // namespace

std::unique_ptr<Part> make_part(const MlaSpec& spec, BuildContext& context) {
  return std::make_unique<Mla>(spec, context.files, context.options, context.state, context.ropes);
}

}  // namespace reprise::models::cpu
