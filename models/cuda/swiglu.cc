#include "models/cuda/layers.h"

namespace reprise::models::cuda {

SwiGlu::SwiGlu(const SwiGluSpec& spec, WeightStore& weights)
    : act_(spec.activation == Activation::kGelu ? gc::GateFunction::kGelu : gc::GateFunction::kSilu),
      gate_factor_(spec.gate_multiplier),
      in_(weights.linear({spec.name + ".gate_proj", spec.name + ".up_proj"})),
      out_(weights.linear({spec.name + ".down_proj"})) {}

std::size_t SwiGlu::workspace(const StepSize& size) const {
  const auto width = static_cast<std::size_t>(in_.weight.rows + out_.weight.columns);
  return size.padded() * width * size.element() + 2 * Workspace::kAlignment;
}

void SwiGlu::gate_on_the_way(const CudaStep& step, const PartInput& x, gc::Bf16* inner) const {
  const gc::GatedRows gated{.y = inner, .act = act_, .gate_factor = gate_factor_};
  if (step.phase == Phase::kPrefill) {
    return step.gemm.multiply_gated(x.x, step.batch.rows, in_.parts, gated, step.stream);
  }
  const gc::FusedProducts& fused = *in_.weight.format->fused;
  if (x.x != nullptr) {
    fused.gated(x.x, step.batch.rows, in_.weight, gated, step.stream);
  } else if (x.raw.x != nullptr) {
    fused.normed_gated(x.raw, step.batch.rows, in_.weight, gated, step.stream);
  } else {
    fused.unscaled_gated(x.unscaled, step.batch.rows, in_.weight, gated, step.stream);
  }
}

template <class Row>
void SwiGlu::gate(const CudaStep& step, const PartInput& x, Row* inner) const {
  auto* projected = step.workspace.take<Row>(step.size.padded() * static_cast<std::size_t>(in_.weight.rows));
  step.multiply(x, in_, projected, kRowsOf<Row>);
  gc::gate_rows(projected, step.size.rows, out_.weight.columns, act_, gate_factor_, inner, step.stream);
}

void SwiGlu::apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  const std::size_t mark = step.workspace.mark();
  const std::size_t elements = step.size.padded() * static_cast<std::size_t>(out_.weight.columns);
  if (step.size.precise) {
    auto* inner = step.workspace.take<float>(elements);
    gate(step, x, inner);
    step.multiply(inner, out_, to);
  } else {
    auto* inner = step.workspace.take<gc::Bf16>(elements);
    if (step.gates(in_, out_.weight.columns)) {
      gate_on_the_way(step, x, inner);
    } else {
      gate(step, x, inner);
    }
    step.multiply(inner, out_, to);
  }
  step.workspace.reset(mark);
}

void SwiGlu::admit(const Admission& admission, gc::GemmOutput output) const {
  admission.admit(in_, gc::GemmOutput::kBf16);
  admission.admit(out_, output);
}

}  // namespace reprise::models::cuda
