#pragma once
// Mamba-2 on the CPU (models/parts/mamba2.h).
//
// Threading: as Step.

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/parts/mamba2.h"

namespace reprise::models {

class Mamba2 : public Part {
 public:
  /// Throws LoadError.
  Mamba2(const Mamba2Spec& spec, const Checkpoint& checkpoint, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    in_.prepare(how);
    out_.prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"Mamba-2"};
    return kSite;
  }

 private:
  void convolve(Step& step, const float* projected, float* mixed) const;
  void recur(Step& step, const float* projected, const float* mixed, float* y) const;
  void gate(Step& step, float* projected, float* y) const;
  void normalise(const gpu::Kernels& kernels, float* row) const;

  const Mamba2Spec spec_;
  Linear in_;
  Linear out_;
  Mamba2Vectors vectors_;
  Mamba2Places places_;
};

}  // namespace reprise::models
