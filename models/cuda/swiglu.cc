#include "models/cuda/layers.h"

namespace reprise::models::cuda {

SwiGlu::SwiGlu(const SwiGluSpec& spec, WeightStore& weights)
    : act_(spec.activation == Activation::kGelu ? gc::GateFunction::kGelu : gc::GateFunction::kSilu),
      gate_factor_(spec.gate_multiplier),
      in_(weights.linear({spec.name + ".gate_proj", spec.name + ".up_proj"})),
      out_(weights.linear({spec.name + ".down_proj"})) {}

std::size_t SwiGlu::workspace(const StepSize& size) const {
  const auto width = static_cast<std::size_t>(in_.weight.rows + out_.weight.columns);
  return size.padded() * width * sizeof(gc::Bf16) + 2 * Workspace::kAlignment;
}

void SwiGlu::apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t rows = step.size.padded();
  auto* inner = workspace.take<gc::Bf16>(rows * static_cast<std::size_t>(out_.weight.columns));
  if (step.gates(in_, out_.weight.columns)) {
    const gc::GatedRows gated{.y = inner, .act = act_, .gate_factor = gate_factor_};
    const gc::FusedProducts& fused = *in_.weight.format->fused;
    if (x.x != nullptr) {
      fused.gated(x.x, step.batch.rows, in_.weight, gated, step.stream);
    } else if (x.raw.x != nullptr) {
      fused.normed_gated(x.raw, step.batch.rows, in_.weight, gated, step.stream);
    } else {
      fused.unscaled_gated(x.unscaled, step.batch.rows, in_.weight, gated, step.stream);
    }
  } else {
    auto* projected = workspace.take<gc::Bf16>(rows * static_cast<std::size_t>(in_.weight.rows));
    step.multiply(x, in_, projected, gc::GemmOutput::kBf16);
    gc::gate_rows(projected, step.size.rows, out_.weight.columns, act_, gate_factor_, inner, step.stream);
  }
  step.multiply(inner, out_, to);
  workspace.reset(mark);
}

void SwiGlu::admit(gc::PrefillGemm& gemm, gc::GemmOutput output, int most_rows) const {
  in_.admit(gemm, gc::GemmOutput::kBf16, most_rows);
  out_.admit(gemm, output, most_rows);
}

}  // namespace reprise::models::cuda
