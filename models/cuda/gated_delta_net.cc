#include "models/parts/gated_delta_net.h"
#include "gpu/cuda/recurrence/gated_delta_net.h"
#include "models/cuda/part.h"
#include "models/files/load_error.h"

namespace reprise::models::cuda {
namespace {

class GatedDeltaNet : public MixerOfRows<GatedDeltaNet> {
 public:
  GatedDeltaNet(const GatedDeltaNetSpec& spec, const ModelFiles& files, WeightStore& weights,
                StateLayout& state);

 private:
  friend class MixerOfRows<GatedDeltaNet>;
  std::size_t mixing_workspace(const StepSize& size) const override;
  template <class Row>
  void mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const;

  gc::GatedDeltaNetShape shape_;
  gc::GatedDeltaNetWeights weights_;
};

GatedDeltaNet::GatedDeltaNet(const GatedDeltaNetSpec& spec, const ModelFiles& files, WeightStore& weights,
                             StateLayout& state)
    : MixerOfRows(weights.linear({spec.name + ".in_proj_qkv", spec.name + ".in_proj_z",
                                  spec.name + ".in_proj_b", spec.name + ".in_proj_a"}),
                  weights.linear({spec.name + ".out_proj"}), Norms::kInProducts) {
  const GatedDeltaNetOffsets offsets = declare_state(spec, state);
  shape_ = {.key_heads = static_cast<int>(spec.key_heads),
            .value_heads = static_cast<int>(spec.value_heads),
            .key_dim = static_cast<int>(spec.key_head_dim),
            .value_dim = static_cast<int>(spec.value_head_dim),
            .taps = static_cast<int>(spec.conv_kernel),
            .conv_offset = offsets.conv,
            .state_offset = offsets.matrices};
  if (!gc::gated_delta_net_supports(shape_)) {
    throw LoadError(files.path(), "linear_key_head_dim",
                    "heads of " + std::to_string(spec.key_head_dim) + " and " +
                        std::to_string(spec.value_head_dim) +
                        " are not among those that the GPU kernels know");
  }
  const GatedDeltaNetParameters parameters = load_gated_delta_net_parameters(files, spec);
  weights_ = {.conv = weights.vector(parameters.conv),
              .decay = weights.vector(parameters.decay),
              .dt_bias = weights.vector(parameters.dt_bias),
              .norm = weights.vector(parameters.norm),
              .norm_eps = spec.norm.eps};
}

std::size_t GatedDeltaNet::mixing_workspace(const StepSize& size) const {
  const auto bytes =
      size.precise ? gc::gated_delta_net_workspace<float> : gc::gated_delta_net_workspace<gc::Bf16>;
  return bytes(shape_, size.rows, size.tiles) + Workspace::kAlignment;
}

template <class Row>
void GatedDeltaNet::mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const {
  std::byte* inside =
      step.workspace.bytes(gc::gated_delta_net_workspace<Row>(shape_, step.size.rows, step.size.tiles));
  const gc::GatedDeltaNetPass<Row> pass{.projected = projected,
                                        .stride = in().weight.rows,
                                        .out = mixed,
                                        .workspace = inside,
                                        .exports = step.exports};
  if (step.phase == Phase::kPrefill) {
    gc::gated_delta_net_prefill(shape_, weights_, step.batch, pass, step.stream);
  } else {
    gc::gated_delta_net_decode(shape_, weights_, step.batch, pass, step.stream);
  }
}

}  // namespace

std::unique_ptr<Part> make_part(const GatedDeltaNetSpec& spec, BuildContext& context) {
  return std::make_unique<GatedDeltaNet>(spec, context.files, context.weights, context.state);
}

}  // namespace reprise::models::cuda
