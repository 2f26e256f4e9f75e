#include "models/cuda/layers.h"

namespace reprise::models::cuda {

Mlp::Mlp(const MlpSpec& spec, WeightStore& weights)
    : up_(weights.linear({spec.name + ".up_proj"})), down_(weights.linear({spec.name + ".down_proj"})) {}

std::size_t Mlp::workspace(const StepSize& size) const {
  return size.padded() * static_cast<std::size_t>(up_.weight.rows) * sizeof(gc::Bf16) + Workspace::kAlignment;
}

void Mlp::apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  const std::size_t mark = step.workspace.mark();
  auto* inner = step.workspace.take<gc::Bf16>(step.size.padded() * static_cast<std::size_t>(up_.weight.rows));
  step.multiply(x, up_, inner, gc::GemmOutput::kBf16);
  gc::relu_squared(inner, step.size.rows, up_.weight.rows, step.stream);
  step.multiply(inner, down_, to.y, to.how);
  step.workspace.reset(mark);
}

void Mlp::admit(gc::PrefillGemm& gemm, gc::GemmOutput output, int most_rows) const {
  up_.admit(gemm, gc::GemmOutput::kBf16, most_rows);
  down_.admit(gemm, output, most_rows);
}

}  // namespace reprise::models::cuda
