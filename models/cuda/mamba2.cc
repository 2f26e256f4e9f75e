#include "models/cuda/layers.h"
#include "models/mamba2_vectors.h"

namespace reprise::models::cuda {
namespace {

gc::SsdGating gating_of(Mamba2Spec::Gating gating) {
  switch (gating) {
    case Mamba2Spec::Gating::kGateThenNorm:
      return gc::SsdGating::kGateThenNorm;
    case Mamba2Spec::Gating::kNormThenGate:
      return gc::SsdGating::kNormThenGate;
    case Mamba2Spec::Gating::kGateAlone:
      break;
  }
  return gc::SsdGating::kGateAlone;
}

}  // namespace

Mamba2::Mamba2(const Mamba2Spec& spec, const Checkpoint& checkpoint, WeightStore& weights, StateLayout& state)
    : in_(weights.linear({spec.name + ".in_proj"})), out_(weights.linear({spec.name + ".out_proj"})) {
  const Mamba2Places places = declare_state(spec, state);
  shape_ = {.heads = static_cast<int>(spec.heads),
            .head_dim = static_cast<int>(spec.head_dim),
            .groups = static_cast<int>(spec.groups),
            .state_size = static_cast<int>(spec.state_size),
            .state_offset = places.matrices};
  conv_ = {.channels = static_cast<int>(spec.conv_channels()),
           .taps = static_cast<int>(spec.conv_kernel),
           .silu = true,
           .state_offset = places.conv};
  const Mamba2Vectors vectors = load_mamba2_vectors(checkpoint, spec);
  taps_ = weights.vector(vectors.conv);
  if (!vectors.conv_bias.empty()) conv_bias_ = weights.vector(vectors.conv_bias);
  recurrence_ = {.mixed = nullptr,  // these are a step's own
                 .step = nullptr,
                 .step_stride = in_.weight.rows,
                 .dt_bias = weights.vector(vectors.dt_bias),
                 .decay = weights.vector(vectors.decay),
                 .skip = weights.vector(vectors.skip),
                 .dt_scale = spec.multipliers.dt,
                 .dt_min = spec.dt_min,
                 .dt_max = spec.dt_max,
                 .out = nullptr};
  gate_ = {.y = nullptr,
           .z = nullptr,
           .z_stride = in_.weight.rows,
           .z_scale = spec.multipliers.z,
           .norm = spec.has_norm() ? weights.vector(vectors.norm) : nullptr,
           .norm_offset = spec.norm.offset,
           .norm_eps = spec.norm.eps,
           .gating = gating_of(spec.gating),
           .out = nullptr};
}

std::size_t Mamba2::workspace(const StepSize& size) const {
  const auto inner = static_cast<std::size_t>(shape_.inner());
  const std::size_t halves = static_cast<std::size_t>(in_.weight.rows) + inner;
  const std::size_t floats = static_cast<std::size_t>(shape_.channels()) + inner;
  return size.padded() * (halves * sizeof(gc::Bf16) + floats * sizeof(float)) + 5 * Workspace::kAlignment +
         gc::ssd_workspace(shape_, size.rows, size.tiles);
}

void Mamba2::apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t rows = step.size.padded();
  const auto inner = static_cast<std::size_t>(shape_.inner());
  auto* projected =
      workspace.take<gc::Bf16>(rows * static_cast<std::size_t>(in_.weight.rows));  // z, x, B, C, dt
  auto* mixed = workspace.take<float>(rows * static_cast<std::size_t>(shape_.channels()));
  auto* y = workspace.take<float>(rows * inner);
  auto* gated = workspace.take<gc::Bf16>(rows * inner);
  std::byte* inside = workspace.bytes(gc::ssd_workspace(shape_, step.size.rows, step.size.tiles));
  step.multiply(x, in_, projected, gc::GemmOutput::kBf16);
  gc::causal_conv(conv_, step.batch,
                  {.x = projected + inner,
                   .stride = in_.weight.rows,
                   .weight = taps_,
                   .bias = conv_bias_,
                   .exports = step.exports},
                  mixed, step.stream);
  gc::SsdPass recurrence = recurrence_;
  recurrence.mixed = mixed;
  recurrence.step = projected + inner + static_cast<std::size_t>(shape_.channels());
  recurrence.out = y;
  recurrence.workspace = inside;
  recurrence.exports = step.exports;
  gc::ssd(shape_, step.batch, recurrence, step.stream);
  gc::SsdGatePass gate = gate_;
  gate.y = y;
  gate.z = projected;
  gate.out = gated;
  gc::gate_ssd(step.size.rows, shape_.groups, shape_.inner() / shape_.groups, gate, step.stream);
  step.multiply(gated, out_, to.y, to.how);
  workspace.reset(mark);
}

void Mamba2::admit(gc::PrefillGemm& gemm, gc::GemmOutput output, int most_rows) const {
  in_.admit(gemm, gc::GemmOutput::kBf16, most_rows);
  out_.admit(gemm, output, most_rows);
}

}  // namespace reprise::models::cuda
