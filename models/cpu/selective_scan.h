#pragma once
// The mixer of Mamba-1 on the CPU (models/layers/selective_scan_spec.h).
//
// Threading: as Step.

#include <optional>
#include <vector>

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/layers/selective_scan_spec.h"

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
  /// Weights of the norms over dt, B and C.
  struct Norms {
    std::vector<float> dt, b, c;
  };

  std::optional<Norms> load_norms(const Checkpoint& checkpoint) const;
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
  std::vector<float> conv_;       // [taps, inner]
  std::vector<float> conv_bias_;  // [inner], or none
  std::vector<float> a_;          // as the scan wants it: [groups, state_size, kLanes]
  std::vector<float> skip_;       // D [inner]
  std::optional<Norms> norms_;
  SelectiveScanPlaces places_;
};

}  // namespace reprise::models
