#include "models/cuda/residual.h"

#include <algorithm>

namespace reprise::models::cuda {

std::size_t ResidualStep::workspace(const StepSize& size, std::size_t hidden) const {
  const std::size_t elements = size.padded() * hidden;
  std::size_t most = 0;
  for (const auto& part : parts) most = std::max(most, part->workspace(size));
  return most + parts.size() * Workspace::rounded(elements * sizeof(gc::Bf16)) +
         2 * Workspace::rounded(elements * sizeof(float));
}

/// What each part reads; those that read the same share it.
std::vector<PartInput> ResidualStep::read(const CudaStep& step, const float* x, std::size_t hidden) const {
  const auto size = static_cast<int>(hidden);
  // The stream itself may be read by one part alone: what that one adds to it the next would read.
  if (parts.size() == 1 && norm && norm->suits_decoding() && parts.front()->takes_raw(step)) {
    return {{.x = nullptr, .raw = {.x = x, .norm = norm->rows(), .factor = scales.front().in}}};
  }
  std::vector<PartInput> inputs;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const float in = scales[i].in;
    const auto same = std::find_if(scales.begin(), scales.begin() + static_cast<std::ptrdiff_t>(i),
                                   [in](const PartScale& other) { return other.in == in; });
    if (const auto at = static_cast<std::size_t>(same - scales.begin()); at < i) {
      inputs.push_back(inputs[at]);
      continue;
    }
    auto* to = step.workspace.take<gc::Bf16>(step.size.padded() * hidden);
    if (norm && norm->suits_decoding() && step.phase == Phase::kDecode && size % 8 == 0) {
      gc::norm_for_decode(x, step.size.rows, size, norm->rows(), in, to, step.stream);
    } else if (norm) {
      gc::rms_norm(x, nullptr, step.size.rows, size, norm->rows(), in, to, step.stream);
    } else {
      gc::narrow_rows(x, step.size.rows, size, in, to, step.stream);
    }
    inputs.push_back({.x = to, .raw = {}});
  }
  return inputs;
}

void ResidualStep::apply(const CudaStep& step, float* x, std::size_t hidden) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t elements = step.size.padded() * hidden;
  const auto size = static_cast<int>(hidden);
  const int rows = step.size.rows;
  const std::vector<PartInput> inputs = read(step, x, hidden);  // before any part adds to x
  float* sum = x;
  if (norm_after) {
    sum = workspace.take<float>(elements);
    gc::fill(reinterpret_cast<std::byte*>(sum), 0, elements * sizeof(float), step.stream);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (output_of(i) == gc::GemmOutput::kAddF32) {
      parts[i]->apply(step, inputs[i], {.y = sum, .how = gc::GemmOutput::kAddF32});
      continue;
    }
    const std::size_t before = workspace.mark();
    auto* made = workspace.take<float>(elements);
    parts[i]->apply(step, inputs[i], {.y = made, .how = gc::GemmOutput::kF32});
    gc::add_rows(made, rows, size, factor(i), sum, step.stream);
    workspace.reset(before);
  }
  if (norm_after) gc::add_normed_rows(sum, rows, size, norm_after->rows(), multiplier, x, step.stream);
  workspace.reset(mark);
}

void ResidualStep::admit(gc::PrefillGemm& gemm, int most_rows) const {
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i]->admit(gemm, output_of(i), most_rows);
}

}  // namespace reprise::models::cuda
