#pragma once
// SwiGLU and GeGLU on the CPU (models/parts/feed_forward.h): down(act(gate(x)) * up(x)).

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/parts/feed_forward.h"

namespace reprise::models {

class SwiGlu : public Part {
 public:
  SwiGlu(const SwiGluSpec& spec, const Checkpoint& checkpoint);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&gate_, &up_, &down_}) linear->prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"SwiGLU"};
    return kSite;
  }

 private:
  const Activation activation_;
  const float gate_multiplier_;
  Linear gate_;
  Linear up_;
  Linear down_;
};

}  // namespace reprise::models
