#pragma once
// Multi-head latent attention on the CPU (models/parts/mla.h), over paged latents.
//
// Keys and values are never made. A query goes through its head's keys once, q^T (W_k l) = (W_k^T q)^T l, and is then
// compared with the latents themselves; of those the weighted sum is taken, and goes through the head's values. So
// all heads share one row of the page, as in attention with one key/value head, and one form serves prefill and decode.
// The two products with kv_b_proj are in f32 whatever the step's setting is.
//
// Threading: as Step.

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/cpu/rope_tables.h"
#include "models/parts/mla.h"

namespace reprise::models {

class Mla : public Part {
 public:
  /// Throws LoadError.
  Mla(const MlaSpec& spec, const Checkpoint& checkpoint, const ComputeOptions& options, StateLayout& state,
      RopeTables& ropes);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override;
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"latent attention"};
    return kSite;
  }

 private:
  /// queries [rows, heads, key_dim]
  void project_queries(Step& step, LinearInput& x, float* queries) const;
  void store(Step& step, LinearInput& x) const;
  /// [turned_dim] of a row, in place.
  void rotate(const Step& step, std::size_t row, float* turned) const;
  /// inputs [rows, heads, in_stride], of which the first elements count -> outputs [rows, heads, out_stride]
  void through_heads(Step& step, const std::vector<gpu::HostWeight>& weights, const float* inputs,
                     std::size_t in_stride, float* outputs, std::size_t out_stride) const;

  const MlaSpec spec_;
  const std::size_t rope_;  // its table; without meaning where the spec has no rope
  const gpu::KvType kv_;
  Linear q_;    // from x, or from its latent
  Linear q_a_;  // of no use without q_rank
  std::optional<RmsNorm> q_norm_;
  Linear kv_a_;
  RmsNorm norm_;  // with the latent's scale
  Linear o_;
  // Of each head, f32.
  std::vector<gpu::HostWeight> keys_;    // [rank, plain_dim]: W_k transposed
  std::vector<gpu::HostWeight> values_;  // [value_dim, rank]
  std::size_t place_;                    // in a page
};

}  // namespace reprise::models
