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

void Head::multiply(const CudaStep& step, const gc::Bf16* x, int rows, float* logits) const {
  gc::decode_gemm(x, rows, linear.weight, logits, gc::GemmOutput::kF32, step.stream);
}

void Head::multiply(const CudaStep& step, const float* x, int rows, float* logits) const {
  const std::size_t elements =
      static_cast<std::size_t>(rows) * static_cast<std::size_t>(linear.weight.columns);
  const gc::TwoTerms terms{.high = step.workspace.take<gc::Bf16>(elements),
                           .low = step.workspace.take<gc::Bf16>(elements)};
  gc::split_rows(x, rows, linear.weight.columns, terms, step.stream);
  multiply(step, terms.high, rows, logits);
  gc::decode_gemm(terms.low, rows, linear.weight, logits, gc::GemmOutput::kAddF32, step.stream);
}

template <class Row>
void Head::multiply_normed(const CudaStep& step, const float* x, const PickedRows& picked,
                           float* logits) const {
  const int hidden = linear.weight.columns;
  auto* normed =
      step.workspace.take<Row>(static_cast<std::size_t>(picked.count) * static_cast<std::size_t>(hidden));
  gc::rms_norm(x, picked.rows, picked.count, hidden, norm.rows(), 1, normed, step.stream);
  multiply(step, normed, picked.count, logits);
  if (linear.bias != nullptr) gc::add_bias(logits, picked.count, outputs(), linear.bias, step.stream);
  if (picked.adapters.empty()) return;
  CudaStep of_picked = step;
  of_picked.adapters = picked.adapters;
  of_picked.add_changes(normed, linear, logits, gc::GemmOutput::kF32);
}

void Head::apply(const CudaStep& step, const float* x, const PickedRows& picked, float* logits) const {
  const std::size_t mark = step.workspace.mark();
  if (step.size.precise) {
    multiply_normed<float>(step, x, picked, logits);
  } else if (reads_unscaled_ && step.unscaled.x != nullptr) {
    multiply_unscaled(step, picked, logits);
  } else {
    multiply_normed<gc::Bf16>(step, x, picked, logits);
  }
  if (multiplier != 1 || cap != 0) {
    gc::scale(logits, picked.count, outputs(), multiplier, cap, step.stream);
  }
  step.workspace.reset(mark);
}

}  // namespace reprise::models::cuda
