#pragma once
// Kimi Delta Attention on the CPU (models/parts/kda.h).
//
// Threading: as Step.

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/parts/kda.h"

namespace reprise::models {

class Kda : public Part {
 public:
  /// Throws LoadError.
  Kda(const KdaSpec& spec, const Checkpoint& checkpoint, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override;
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"Kimi Delta Attention"};
    return kSite;
  }

 private:
  /// What q, k and v have each.
  struct Branch {
    Branch(const Checkpoint& checkpoint, const std::string& name);

    Linear proj;
    std::vector<float> taps;  // [conv_kernel, size]
  };

  void convolve(Step& step, std::size_t branch, const float* inputs, float* outputs) const;
  /// A low-rank product of x -> y [rows, size].
  void through(Step& step, LinearInput& x, const Linear& narrow, const Linear& wide, float* y) const;
  void recur(Step& step, const float* const (&qkv)[3], const float* decay, const float* beta,
             float* out) const;

  const KdaSpec spec_;
  std::vector<Branch> branches_;  // q, k, v
  Linear b_;
  Linear f_a_;
  Linear f_b_;
  Linear g_a_;
  Linear g_b_;
  Linear out_;
  std::vector<float> rate_;     // [heads]: exp(A_log)
  std::vector<float> dt_bias_;  // [size]
  RmsNorm norm_;                // over head_dim
  KdaPlaces places_;
};

}  // namespace reprise::models
