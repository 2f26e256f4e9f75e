#include "models/cuda/layers.h"

namespace reprise::models::cuda {

Mlp::Mlp(const MlpSpec& spec, WeightStore& weights)
    : up_(weights.linear({spec.name + ".up_proj"})), down_(weights.linear({spec.name + ".down_proj"})) {}

std::size_t Mlp::workspace(const StepSize& size) const {
  return size.padded() * static_cast<std::size_t>(up_.weight.rows) * size.element() + Workspace::kAlignment;
}

template <class Row>
void Mlp::apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  const std::size_t mark = step.workspace.mark();
  auto* inner = step.workspace.take<Row>(step.size.padded() * static_cast<std::size_t>(up_.weight.rows));
  step.multiply(x, up_, inner, kRowsOf<Row>);
  gc::relu_squared(inner, step.size.rows, up_.weight.rows, step.stream);
  step.multiply(inner, down_, to.y, to.how);
  step.workspace.reset(mark);
}

void Mlp::admit(const Admission& admission, gc::GemmOutput output) const {
  admission.admit(up_, gc::GemmOutput::kBf16);
  admission.admit(down_, output);
}

}  // namespace reprise::models::cuda
