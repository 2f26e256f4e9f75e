#include "models/cuda/part.h"

namespace reprise::models::cuda {

std::size_t Mixer::workspace(const StepSize& size) const {
  const auto width = static_cast<std::size_t>(in_.weight.rows + out_.weight.columns);
  return size.padded() * width * size.element() + 2 * Workspace::kAlignment + mixing_workspace(size);
}

template <class Row>
void Mixer::apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t rows = step.size.padded();
  auto* projected = workspace.take<Row>(rows * static_cast<std::size_t>(in_.weight.rows));
  auto* mixed = workspace.take<Row>(rows * static_cast<std::size_t>(out_.weight.columns));
  step.multiply(x, in_, projected, kRowsOf<Row>);
  mix(step, projected, mixed);
  step.multiply(mixed, out_, to);
  workspace.reset(mark);
}

void Mixer::apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  if (step.size.precise) return apply_rows<float>(step, x, to);
  apply_rows<gc::Bf16>(step, x, to);
}

void Mixer::admit(const Admission& admission, gc::GemmOutput output) const {
  admission.admit(in_, gc::GemmOutput::kBf16);
  for (const InnerProduct& inner : inner_products()) admission.admit(*inner.linear, inner.output);
  admission.admit(out_, output);
}

std::vector<const DeviceLinear*> Mixer::adaptable() const {
  std::vector<const DeviceLinear*> linears = {&in_, &out_};
  for (const InnerProduct& inner : inner_products()) {
    if (inner.adapts) linears.push_back(inner.linear);
  }
  return linears;
}

}  // namespace reprise::models::cuda
