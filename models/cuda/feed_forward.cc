#include <optional>
#include <vector>

#include "gpu/cuda/rows/rows.h"
#include "models/cuda/part.h"

namespace reprise::models::cuda {
namespace {

class SwiGlu : public Part {
 public:
  SwiGlu(const SwiGluSpec& spec, WeightStore& weights);
  std::size_t workspace(const StepSize& size) const override;
  void apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const override;
  bool takes_raw(const CudaStep& step) const override { return step.takes_raw(in_); }
  bool reads_unscaled() const override {
    return CudaStep::can_gate(in_, out_.weight.columns) && in_.reads_unscaled();
  }
  bool defers_norm() const override { return out_.defers_norm(); }
  void admit(const Admission& admission, gc::GemmOutput output) const override;
  std::vector<const DeviceLinear*> adaptable() const override { return {&in_, &out_}; }
  std::optional<GatedProducts> gated_products() const override { return GatedProducts{in_, out_}; }

 private:
  /// Both compute inner [padded rows, out_.weight.columns]: with a fused gate, or with a GEMM and a gate
  /// kernel.
  void gate_on_the_way(const CudaStep& step, const PartInput& x, gc::Bf16* inner) const;
  template <class Row>
  void gate(const CudaStep& step, const PartInput& x, Row* inner) const;

  gc::GateFunction act_;
  float gate_factor_;
  DeviceLinear in_;  // gate, up
  DeviceLinear out_;
};

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

class Mlp : public PartOfRows<Mlp> {
 public:
  Mlp(const MlpSpec& spec, WeightStore& weights);
  std::size_t workspace(const StepSize& size) const override;
  void admit(const Admission& admission, gc::GemmOutput output) const override;
  std::vector<const DeviceLinear*> adaptable() const override { return {&up_, &down_}; }

 private:
  friend class PartOfRows<Mlp>;
  template <class Row>
  void apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const;

  DeviceLinear up_;
  DeviceLinear down_;
};

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

}  // namespace

std::unique_ptr<Part> make_part(const SwiGluSpec& spec, BuildContext& context) {
  return std::make_unique<SwiGlu>(spec, context.weights);
}

std::unique_ptr<Part> make_part(const MlpSpec& spec, BuildContext& context) {
  return std::make_unique<Mlp>(spec, context.weights);
}

}  // namespace reprise::models::cuda
