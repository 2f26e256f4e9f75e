#include "models/cuda/mixer.h"

namespace reprise::models::cuda {

std::size_t Mixer::workspace(const StepSize& size) const {
  const auto width = static_cast<std::size_t>(in_.weight.rows + out_.weight.columns);
  return size.padded() * width * sizeof(gc::Bf16) + 2 * Workspace::kAlignment + mixing_workspace(size);
}

void Mixer::apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t rows = step.size.padded();
  auto* projected = workspace.take<gc::Bf16>(rows * static_cast<std::size_t>(in_.weight.rows));
  auto* mixed = workspace.take<gc::Bf16>(rows * static_cast<std::size_t>(out_.weight.columns));
  step.multiply(x, in_, projected, gc::GemmOutput::kBf16);
  mix(step, projected, mixed);
  step.multiply(mixed, out_, to);
  workspace.reset(mark);
}

void Mixer::admit(gc::PrefillGemm& gemm, gc::GemmOutput output, int most_rows) const {
  in_.admit(gemm, gc::GemmOutput::kBf16, most_rows);
  for (const InnerProduct& inner : inner_products()) inner.linear->admit(gemm, inner.output, most_rows);
  out_.admit(gemm, output, most_rows);
}

std::vector<const DeviceLinear*> Mixer::adaptable() const {
  std::vector<const DeviceLinear*> linears = {&in_, &out_};
  for (const InnerProduct& inner : inner_products()) {
    if (inner.adapts) linears.push_back(inner.linear);
  }
  return linears;
}

}  // namespace reprise::models::cuda
