#pragma once
// The recurrent part of Griffin on the CPU (models/parts/rg_lru.h). Its gates' matrices are kept in f32, for they
// are small, and computed in it in every setting.
//
// Threading: as Step.

#include <string>
#include <vector>

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/parts/rg_lru.h"

namespace reprise::models {

class RgLruBlock : public Part {
 public:
  /// Throws LoadError.
  RgLruBlock(const RgLruSpec& spec, const Checkpoint& checkpoint, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&y_, &x_, &out_}) linear->prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"RG-LRU"};
    return kSite;
  }

 private:
  struct Gate {
    Gate(const Checkpoint& checkpoint, const std::string& name);

    std::vector<float> weight;  // [heads, inputs, outputs]
    std::vector<float> bias;    // [heads, outputs]
  };

  void convolve(Step& step, const float* inputs, float* outputs) const;
  void recur(Step& step, const float* u, const float* input_gate, const float* recurrence_gate,
             float* out) const;

  const RgLruSpec spec_;
  Linear y_;
  Linear x_;
  Linear out_;
  std::vector<float> conv_;       // [conv_kernel, width]
  std::vector<float> conv_bias_;  // [width]
  Gate input_gate_;
  Gate recurrence_gate_;
  std::vector<float> rate_;  // [width]: -8 softplus(recurrent_param)
  RgLruPlaces places_;
};

}  // namespace reprise::models
