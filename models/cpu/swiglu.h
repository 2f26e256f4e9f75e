#pragma once
// SwiGLU on the CPU (models/layers/swiglu_spec.h): down(silu(gate(x)) * up(x)).

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/layers/swiglu_spec.h"

namespace reprise::models {

class SwiGlu : public Part {
 public:
  SwiGlu(const SwiGluSpec& spec, const Checkpoint& checkpoint);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&gate_, &up_, &down_}) linear->prepare(how);
  }

 private:
  Linear gate_;
  Linear up_;
  Linear down_;
};

}  // namespace reprise::models
