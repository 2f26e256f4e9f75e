#pragma once
// What a decoder layer consists of on the GPU: the same parts as on the CPU (models/cpu/layers.h), each adding to
// the residual stream.
//
// A part tells how much memory a step of a size needs (workspace) and takes no more than that (apply).
//
// Threading: as CudaStep.

#include <memory>
#include <string>

#include "gpu/cuda/attention.h"
#include "gpu/cuda/delta_net.h"
#include "models/cuda/step.h"
#include "models/cuda/weights.h"
#include "models/layers/layer_state.h"

namespace reprise::models::cuda {

class Part {
 public:
  virtual ~Part() = default;
  virtual std::size_t workspace(const StepSize& size) const = 0;
  /// x bf16 [padded rows, hidden], normed; residual f32 [padded rows, hidden] += what the part makes of it.
  virtual void apply(const CudaStep& step, const gc::Bf16* x, float* residual) const = 0;
  /// Tries its products, for up to so many rows of prefill.
  virtual void admit(gc::PrefillGemm& gemm, int most_rows) const = 0;
};

class Attention : public Part {
 public:
  Attention(WeightStore& weights, const Checkpoint& checkpoint, const std::string& prefix,
            StateLayout& state);
  std::size_t workspace(const StepSize& size) const override;
  void apply(const CudaStep& step, const gc::Bf16* x, float* residual) const override;
  void admit(gc::PrefillGemm& gemm, int most_rows) const override;

 private:
  gc::AttentionShape shape_;
  DeviceLinear in_;  // q (and gate), k, v
  DeviceLinear out_;
  const float* q_norm_ = nullptr;
  const float* k_norm_ = nullptr;
};

class GatedDeltaNet : public Part {
 public:
  GatedDeltaNet(WeightStore& weights, const Checkpoint& checkpoint, const std::string& prefix,
                StateLayout& state);
  std::size_t workspace(const StepSize& size) const override;
  void apply(const CudaStep& step, const gc::Bf16* x, float* residual) const override;
  void admit(gc::PrefillGemm& gemm, int most_rows) const override;

 private:
  gc::DeltaNetShape shape_;
  gc::DeltaNetWeights weights_;
  DeviceLinear in_;  // q | k | v, z, b, a
  DeviceLinear out_;
};

class SwiGlu : public Part {
 public:
  SwiGlu(WeightStore& weights, const std::string& prefix);
  std::size_t workspace(const StepSize& size) const override;
  void apply(const CudaStep& step, const gc::Bf16* x, float* residual) const override;
  void admit(gc::PrefillGemm& gemm, int most_rows) const override;

 private:
  DeviceLinear in_;  // gate, up
  DeviceLinear out_;
};

/// A norm before a part.
struct NormedPart {
  const float* norm = nullptr;  // [hidden]
  std::unique_ptr<Part> part;
};

}  // namespace reprise::models::cuda
