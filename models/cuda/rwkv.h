#pragma once
// The two parts of an RWKV-7 layer on the GPU (models/parts/rwkv.h).
//
// Threading: as CudaStep.

#include <optional>
#include <string>
#include <vector>

#include "gpu/cuda/rwkv.h"
#include "models/cuda/layers.h"

namespace reprise::models::cuda {

class TimeMix : public PartOfRows<TimeMix> {
 public:
  TimeMix(const TimeMixSpec& spec, const Checkpoint& checkpoint, WeightStore& weights, StateLayout& state);
  std::size_t workspace(const StepSize& size) const override;
  void admit(const Admission& admission, gc::GemmOutput output) const override;
  /// Not those whose inputs may be filled up.
  std::vector<const DeviceLinear*> adaptable() const override { return {&r_, &k_, &v_, &out_}; }

 private:
  friend class PartOfRows<TimeMix>;
  static constexpr int kMixes = 6;

  /// W2 act(W1 x) + bias
  struct Pair {
    Pair(const std::string& name, WeightStore& weights);
    std::size_t inner_bytes(const StepSize& size) const;
    /// y f32 [padded rows, outputs]
    template <class Row>
    void apply(const CudaStep& step, const Row* x, gc::PairFunction between, float* y) const;
    void admit(const Admission& admission) const;

    DeviceLinear first;
    DeviceLinear second;  // its inputs filled up
  };
  template <class Row>
  void apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const;
  std::vector<const Pair*> pairs() const;

  gc::WkvShape shape_;
  DeviceLinear r_;
  DeviceLinear k_;
  DeviceLinear v_;
  DeviceLinear out_;
  Pair decay_;
  Pair rate_;
  Pair gate_;
  std::optional<Pair> value_;   // not in the first layer
  const float* mix_ = nullptr;  // [kMixes, hidden]; the others [hidden]
  const float* key_scale_ = nullptr;
  const float* rate_scale_ = nullptr;
  const float* bonus_ = nullptr;
  const float* norm_ = nullptr;
  const float* norm_bias_ = nullptr;
  std::size_t row_place_ = 0;  // in the slot
};

class ChannelMix : public PartOfRows<ChannelMix> {
 public:
  ChannelMix(const ChannelMixSpec& spec, const Checkpoint& checkpoint, WeightStore& weights,
             StateLayout& state);
  std::size_t workspace(const StepSize& size) const override;
  void admit(const Admission& admission, gc::GemmOutput output) const override;
  std::vector<const DeviceLinear*> adaptable() const override { return {&key_, &value_}; }

 private:
  friend class PartOfRows<ChannelMix>;
  template <class Row>
  void apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const;

  DeviceLinear key_;
  DeviceLinear value_;
  const float* mix_;       // [hidden]
  std::size_t row_place_;  // in the slot
};

}  // namespace reprise::models::cuda
