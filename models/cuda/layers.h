#pragma once
// What a layer consists of on the GPU: the parts that a description names (models/layers/layer_spec.h), each
// adding to the residual stream.
//
// A part tells how much memory a step of a size needs (workspace) and takes no more than that (apply).
//
// Threading: as CudaStep.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/cuda/attention.h"
#include "gpu/cuda/delta_net.h"
#include "models/cuda/step.h"
#include "models/cuda/weights.h"
#include "models/layers/layer_spec.h"

namespace reprise::models::cuda {

class RopeTables;

class Part {
 public:
  virtual ~Part() = default;
  virtual std::size_t workspace(const StepSize& size) const = 0;
  /// x bf16 [padded rows, hidden], normed; residual f32 [padded rows, hidden] += what the part makes of it.
  virtual void apply(const CudaStep& step, const gc::Bf16* x, float* residual) const = 0;
  /// Tries its products, for up to so many rows of prefill.
  virtual void admit(gc::PrefillGemm& gemm, int most_rows) const = 0;
  /// Whose products go through CudaStep::multiply(), so that adapters can change them.
  virtual std::vector<const DeviceLinear*> adaptable() const { return {}; }
};

class Attention : public Part {
 public:
  Attention(const AttentionSpec& spec, const Checkpoint& checkpoint, WeightStore& weights, StateLayout& state,
            RopeTables& ropes);
  std::size_t workspace(const StepSize& size) const override;
  void apply(const CudaStep& step, const gc::Bf16* x, float* residual) const override;
  void admit(gc::PrefillGemm& gemm, int most_rows) const override;
  std::vector<const DeviceLinear*> adaptable() const override { return {&in_, &out_}; }

 private:
  gc::AttentionShape shape_;
  DeviceLinear in_;  // q (and gate), k, v
  DeviceLinear out_;
  const float* q_norm_ = nullptr;
  const float* k_norm_ = nullptr;
  std::optional<std::size_t> rope_;  // its table in CudaStep::ropes
};

class GatedDeltaNet : public Part {
 public:
  GatedDeltaNet(const DeltaNetSpec& spec, const Checkpoint& checkpoint, WeightStore& weights,
                StateLayout& state);
  std::size_t workspace(const StepSize& size) const override;
  void apply(const CudaStep& step, const gc::Bf16* x, float* residual) const override;
  void admit(gc::PrefillGemm& gemm, int most_rows) const override;
  std::vector<const DeviceLinear*> adaptable() const override { return {&in_, &out_}; }

 private:
  gc::DeltaNetShape shape_;
  gc::DeltaNetWeights weights_;
  DeviceLinear in_;  // q | k | v, z, b, a
  DeviceLinear out_;
};

class SwiGlu : public Part {
 public:
  SwiGlu(const SwiGluSpec& spec, WeightStore& weights);
  std::size_t workspace(const StepSize& size) const override;
  void apply(const CudaStep& step, const gc::Bf16* x, float* residual) const override;
  void admit(gc::PrefillGemm& gemm, int most_rows) const override;
  std::vector<const DeviceLinear*> adaptable() const override { return {&in_, &out_}; }

 private:
  DeviceLinear in_;  // gate, up
  DeviceLinear out_;
};

/// A norm over the residual stream.
struct DeviceNorm {
  const float* weight = nullptr;  // [hidden]
  NormKind kind{};
};

/// x += part(norm(x)) + part(norm(x)) + ...
struct ResidualStep {
  DeviceNorm norm;
  std::vector<std::unique_ptr<Part>> parts;
};

}  // namespace reprise::models::cuda
