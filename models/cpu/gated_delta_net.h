#pragma once
// Gated DeltaNet: a short causal convolution, then the gated delta rule on a matrix of state for each value
// head.
//
// State of a sequence: the last taps - 1 inputs of the convolution, [taps - 1, channels], and the matrices,
// [value_heads, key_head_dim, value_head_dim]; both f32.

#include "models/arch/config.h"
#include "models/cpu/delta_net_vectors.h"
#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/layers/layer_state.h"

namespace reprise::models {

class Checkpoint;

class GatedDeltaNet : public Mixer {
 public:
  /// From `prefix`.in_proj_qkv, in_proj_z, in_proj_b, in_proj_a, conv1d, A_log, dt_bias, norm, out_proj.
  GatedDeltaNet(const Checkpoint& checkpoint, const std::string& prefix, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;

 private:
  void convolve(Step& step, const float* inputs, float* outputs) const;
  void normalise_heads(Step& step, float* qkv) const;
  void recur(Step& step, const float* qkv, const float* g, const float* beta, float* out) const;

  const LinearAttentionConfig config_;
  Linear qkv_;
  Linear z_;
  Linear b_;
  Linear a_;
  Linear out_;
  DeltaNetVectors vectors_;
  RmsNorm norm_;  // over value_head_dim
  DeltaNetPlaces places_;
};

}  // namespace reprise::models
