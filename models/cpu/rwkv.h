#pragma once
// The parts of RWKV-7 on the CPU (models/parts/rwkv.h).
//
// Threading: as Step.

#include <optional>
#include <string>
#include <vector>

#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/parts/rwkv.h"

namespace reprise::models {

class TimeMix : public Part {
 public:
  /// Throws LoadError.
  TimeMix(const TimeMixSpec& spec, const Checkpoint& checkpoint, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override;
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"RWKV time mix"};
    return kSite;
  }

 private:
  /// W2 act(W1 x) + bias
  struct Pair {
    enum class Between : std::uint8_t { kNothing, kTanh, kSigmoid };

    Pair(const Checkpoint& checkpoint, const std::string& name);
    /// x [step.rows, hidden] -> the step's scratch [step.rows, hidden]
    float* apply(Step& step, LinearInput& x, Between between) const;

    Linear first;
    Linear second;
  };

  void recur(Step& step, const gpu::WkvRule& rows) const;

  const TimeMixSpec spec_;
  std::vector<float> mix_;  // [6, hidden]
  Linear r_;
  Linear k_;
  Linear v_;
  Linear o_;
  Pair decay_;
  Pair rate_;
  std::optional<Pair> value_;
  Pair gate_;
  std::vector<float> key_scale_;  // [hidden], as are these
  std::vector<float> rate_scale_;
  std::vector<float> bonus_;
  std::vector<float> norm_;
  std::vector<float> norm_bias_;
  TimeMixPlaces places_;
};

class ChannelMix : public Part {
 public:
  /// Throws LoadError.
  ChannelMix(const ChannelMixSpec& spec, const Checkpoint& checkpoint, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&key_, &value_}) linear->prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"RWKV channel mix"};
    return kSite;
  }

 private:
  const ChannelMixSpec spec_;
  std::vector<float> mix_;  // [hidden]
  Linear key_;
  Linear value_;
  std::size_t row_;  // its place in the slot
};

}  // namespace reprise::models
