#pragma once
// Gated DeltaNet on the CPU (models/parts/gated_delta_net.h).
//
// Threading: as Step.

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/parts/gated_delta_net.h"

namespace reprise::models {

class GatedDeltaNet : public Part {
 public:
  /// Throws LoadError.
  GatedDeltaNet(const DeltaNetSpec& spec, const Checkpoint& checkpoint, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&qkv_, &z_, &b_, &a_, &out_}) linear->prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"Gated DeltaNet"};
    return kSite;
  }

 private:
  void convolve(Step& step, const float* inputs, float* outputs) const;
  void normalise_heads(Step& step, float* qkv) const;
  void recur(Step& step, const float* qkv, const float* g, const float* beta, float* out) const;

  const DeltaNetSpec spec_;
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
