#pragma once
// From the residual stream to logits: the final norm, the head, and what a model does with its outputs.
//
// Of decoded rows whose last step leaves UnscaledRows the head ends the norm itself; which way rows go depends on the model and its
// adapters alone, so that within a phase a row's logits do not depend on how many there are.
//
// Threading: as CudaStep.

#include <cstddef>

#include "models/cuda/residual.h"
#include "models/cuda/step.h"
#include "models/cuda/weights.h"

namespace reprise::models::cuda {

/// The rows of a step whose logits are wanted.
struct PickedRows {
  const std::int32_t* rows;  // [count] of the step's, ascending
  int count;
  std::span<const AdapterRows> adapters;  // among them

  /// Bytes of the workspace that Head::apply() takes.
  static std::size_t workspace(std::size_t count, std::size_t hidden, const StepSize& size) {
    return Workspace::rounded(count * hidden * size.element()) +
           Workspace::rounded(count * hidden / 8 * sizeof(float)) +
           (size.precise ? 2 * Workspace::rounded(count * hidden * sizeof(gc::Bf16)) : 0);
  }
};

struct Head {
  DeviceNorm norm;
  DeviceLinear linear;
  float multiplier = 1;
  float cap = 0;  // 0: none

  /// Outputs of a row: the vocabulary, rounded up.
  int outputs() const { return linear.weight.rows; }
  bool can_read_unscaled() const { return norm.suits_decoding() && linear.reads_unscaled(); }
  /// It does, where CudaStep::unscaled is there.
  NormAhead read_unscaled() {
    reads_unscaled_ = true;
    return {.norm = norm.rows(), .factor = 1};
  }

  /// x f32 [padded rows, hidden] -> logits f32 [picked rows, outputs].
  void apply(const CudaStep& step, const float* x, const PickedRows& picked, float* logits) const;

 private:
  bool reads_unscaled_ = false;  // what the last step leaves

  void multiply_unscaled(const CudaStep& step, const PickedRows& picked, float* logits) const;
  template <class Row>
  void multiply_normed(const CudaStep& step, const float* x, const PickedRows& picked, float* logits) const;
  /// Without what adapters change. In both phases: a row's logits do not depend on how many there are.
  void multiply(const CudaStep& step, const gc::Bf16* x, int rows, float* logits) const;
  void multiply(const CudaStep& step, const float* x, int rows, float* logits) const;
};

}  // namespace reprise::models::cuda
