#pragma once
// The mixer of Mamba-1 on the CPU (models/parts/selective_scan.h).
//
// Threading: as Step.

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/parts/selective_scan.h"

namespace reprise::models {

class SelectiveScan : public Part {
 public:
  /// Throws LoadError.
  SelectiveScan(const SelectiveScanSpec& spec, const Checkpoint& checkpoint, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&in_, &x_, &dt_, &out_}) linear->prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"selective scan"};
    return kSite;
  }

 private:
  /// Calls work(slice, begin, end) for ranges of the channels of each slice.
  template <class Work>
  void for_channels(Step& step, const Work& work) const;
  void convolve(Step& step, const float* projected, float* x) const;
  void separate(Step& step, float* dt_b_c, float* dt) const;
  void scan(Step& step, const float* x, const float* dt, const float* dt_b_c, const float* projected,
            float* y) const;

  const SelectiveScanSpec spec_;
  Linear in_;  // x, z
  Linear x_;   // dt, B, C
  Linear dt_;
  Linear out_;
  SelectiveScanVectors vectors_;
  SelectiveScanPlaces places_;
};

}  // namespace reprise::models
