#include "gpu/cuda/recurrence/mamba2.h"
#include "gpu/cuda/recurrence/causal_conv.h"
#include "models/cuda/part.h"
#include "models/parts/mamba2.h"

namespace reprise::models::cuda {
namespace {

gc::Mamba2Gating gating_of(Mamba2Spec::Gating gating) {
  switch (gating) {
    case Mamba2Spec::Gating::kGateThenNorm:
      return gc::Mamba2Gating::kGateThenNorm;
    case Mamba2Spec::Gating::kNormThenGate:
      return gc::Mamba2Gating::kNormThenGate;
    case Mamba2Spec::Gating::kGateAlone:
      break;
  }
  return gc::Mamba2Gating::kGateAlone;
}

class Mamba2 : public MixerOfRows<Mamba2> {
 public:
  Mamba2(const Mamba2Spec& spec, const ModelFiles& files, WeightStore& weights, StateLayout& state);

 private:
  friend class MixerOfRows<Mamba2>;
  std::size_t mixing_workspace(const StepSize& size) const override;
  template <class Row>
  void mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const;

  gc::Mamba2Shape shape_;
  gc::CausalConvShape conv_;
  const float* taps_ = nullptr;       // [taps, channels]
  const float* conv_bias_ = nullptr;  // [channels]; null: none
  const float* dt_bias_ = nullptr;    // [heads]
  const float* decay_ = nullptr;      // [heads]
  const float* skip_ = nullptr;       // [heads]
  const float* norm_ = nullptr;       // [inner]; null: none
  Mamba2Spec spec_;
};

Mamba2::Mamba2(const Mamba2Spec& spec, const ModelFiles& files, WeightStore& weights, StateLayout& state)
    : MixerOfRows(weights.linear({spec.name + ".in_proj"}), weights.linear({spec.name + ".out_proj"}),
                  Norms::kApart),
      spec_(spec) {
  const Mamba2Offsets offsets = declare_state(spec, state);
  shape_ = {.heads = static_cast<int>(spec.heads),
            .head_dim = static_cast<int>(spec.head_dim),
            .groups = static_cast<int>(spec.groups),
            .state_size = static_cast<int>(spec.state_size),
            .state_offset = offsets.matrices};
  conv_ = {.channels = static_cast<int>(spec.conv_channels()),
           .taps = static_cast<int>(spec.conv_kernel),
           .silu = true,
           .state_offset = offsets.conv};
  const Mamba2Parameters parameters = load_mamba2_parameters(files, spec);
  taps_ = weights.vector(parameters.conv);
  if (!parameters.conv_bias.empty()) conv_bias_ = weights.vector(parameters.conv_bias);
  dt_bias_ = weights.vector(parameters.dt_bias);
  decay_ = weights.vector(parameters.decay);
  skip_ = weights.vector(parameters.skip);
  if (spec.has_norm()) norm_ = weights.vector(parameters.norm);
}

std::size_t Mamba2::mixing_workspace(const StepSize& size) const {
  const std::size_t floats = static_cast<std::size_t>(shape_.channels() + shape_.inner());
  return size.padded() * floats * sizeof(float) + 3 * Workspace::kAlignment +
         gc::mamba2_workspace(shape_, size.rows, size.tiles);
}

// projected: [rows, z x B C dt].
template <class Row>
void Mamba2::mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const {
  const std::size_t rows = step.size.padded();
  const auto inner = static_cast<std::size_t>(shape_.inner());
  auto* convolved = step.workspace.take<float>(rows * static_cast<std::size_t>(shape_.channels()));
  auto* y = step.workspace.take<float>(rows * inner);
  std::byte* inside = step.workspace.bytes(gc::mamba2_workspace(shape_, step.size.rows, step.size.tiles));
  gc::causal_conv(conv_, step.batch,
                  gc::CausalConvPass<Row>{.x = projected + inner,
                                          .stride = in().weight.rows,
                                          .weight = taps_,
                                          .bias = conv_bias_,
                                          .exports = step.exports},
                  convolved, step.stream);
  gc::mamba2(shape_, step.batch,
             gc::Mamba2Pass<Row>{.mixed = convolved,
                                 .step = projected + inner + static_cast<std::size_t>(shape_.channels()),
                                 .step_stride = in().weight.rows,
                                 .dt_bias = dt_bias_,
                                 .decay = decay_,
                                 .skip = skip_,
                                 .dt_scale = spec_.multipliers.dt,
                                 .dt_min = spec_.dt_min,
                                 .dt_max = spec_.dt_max,
                                 .out = y,
                                 .workspace = inside,
                                 .exports = step.exports},
             step.stream);
  gc::gate_mamba2(step.size.rows, shape_.groups, shape_.inner() / shape_.groups,
                  gc::Mamba2GatePass<Row>{.y = y,
                                          .z = projected,
                                          .z_stride = in().weight.rows,
                                          .z_scale = spec_.multipliers.z,
                                          .norm = norm_,
                                          .norm_offset = spec_.norm.offset,
                                          .norm_eps = spec_.norm.eps,
                                          .gating = gating_of(spec_.gating),
                                          .out = mixed},
                  step.stream);
}

}  // namespace

std::unique_ptr<Part> make_part(const Mamba2Spec& spec, BuildContext& context) {
  return std::make_unique<Mamba2>(spec, context.files, context.weights, context.state);
}

}  // namespace reprise::models::cuda
