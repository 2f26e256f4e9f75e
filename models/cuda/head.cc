#include "models/cuda/head.h"

#include "gpu/cuda/gemm.h"
#include "gpu/cuda/rows.h"

namespace reprise::models::cuda {

void Head::multiply_unscaled(const CudaStep& step, const PickedRows& picked, float* logits) const {
  const int hidden = linear.weight.columns;
  gc::UnscaledRows rows = step.unscaled;
  if (picked.count != step.size.rows) {
    const auto elements = static_cast<std::size_t>(picked.count) * static_cast<std::size_t>(hidden);
    rows.x = step.workspace.take<gc::Bf16>(elements);
    rows.squares = step.workspace.take<float>(elements / 8);
    gc::pick_rows(step.unscaled, picked.rows, picked.count, hidden, rows, step.stream);
  }
  rows.eps = norm.kind.eps;
  linear.weight.format->fused->unscaled(rows, picked.count, linear.weight, logits, gc::GemmOutput::kF32,
                                        step.stream);
}

void Head::apply(const CudaStep& step, const float* x, const PickedRows& picked, float* logits) const {
  const std::size_t mark = step.workspace.mark();
  const gc::StreamHandle stream = step.stream;
  if (reads_unscaled_ && step.unscaled.x != nullptr) {
    multiply_unscaled(step, picked, logits);
  } else {
    const int hidden = linear.weight.columns;
    auto* normed = step.workspace.take<gc::Bf16>(static_cast<std::size_t>(picked.count) *
                                                 static_cast<std::size_t>(hidden));
    gc::rms_norm(x, picked.rows, picked.count, hidden, norm.rows(), 1, normed, stream);
    // In both phases: a row's logits do not depend on how many there are.
    gc::decode_gemm(normed, picked.count, linear.weight, logits, gc::GemmOutput::kF32, stream);
    if (linear.bias != nullptr) gc::add_bias(logits, picked.count, outputs(), linear.bias, stream);
    if (!picked.adapters.empty()) {
      CudaStep of_picked = step;
      of_picked.adapters = picked.adapters;
      of_picked.add_changes(normed, linear, logits, gc::GemmOutput::kF32);
    }
  }
  if (multiplier != 1 || cap != 0) {
    gc::scale(logits, picked.count, outputs(), multiplier, cap, stream);
  }
  step.workspace.reset(mark);
}

}  // namespace reprise::models::cuda
