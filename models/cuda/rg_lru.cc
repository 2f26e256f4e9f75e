#include "gpu/cuda/recurrence/rg_lru.h"
#include "gpu/cuda/gemm/small_products.h"
#include "gpu/cuda/recurrence/causal_conv.h"
#include "models/cuda/part.h"
#include "models/parts/rg_lru.h"
#include "models/weight_tensors.h"

namespace reprise::models::cuda {
namespace {

class RgLruBlock : public MixerOfRows<RgLruBlock> {
 public:
  RgLruBlock(const RgLruSpec& spec, const ModelFiles& files, WeightStore& weights, StateLayout& state);

 private:
  friend class MixerOfRows<RgLruBlock>;
  std::size_t mixing_workspace(const StepSize& size) const override;
  template <class Row>
  void mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const;

  gc::RgLruShape shape_;
  gc::CausalConvShape conv_;
  const float* taps_ = nullptr;       // [taps, width]
  const float* conv_bias_ = nullptr;  // [width]
  gc::BlockWeights input_gate_;
  gc::BlockWeights recurrence_gate_;
  const float* rate_ = nullptr;  // [width]
};

RgLruBlock::RgLruBlock(const RgLruSpec& spec, const ModelFiles& files, WeightStore& weights,
                       StateLayout& state)
    : MixerOfRows(weights.linear({spec.name + ".linear_y", spec.name + ".linear_x"}),
                  weights.linear({spec.name + ".linear_out"}), Norms::kApart) {
  const RgLruOffsets offsets = declare_state(spec, state);
  shape_ = {.channels = static_cast<int>(spec.width), .state_offset = offsets.h};
  conv_ = {.channels = static_cast<int>(spec.width),
           .taps = static_cast<int>(spec.conv_kernel),
           .silu = false,
           .state_offset = offsets.conv};
  const auto size = static_cast<int>(spec.head_width());
  const auto gate = [&](const std::string& name) {
    return gc::BlockWeights{
        .blocks = static_cast<int>(spec.heads),
        .inputs = size,
        .outputs = size,
        .weight = weights.vector(load_vector(files, spec.name + ".rg_lru." + name + "_weight")),
        .bias = weights.vector(load_vector(files, spec.name + ".rg_lru." + name + "_bias"))};
  };
  taps_ = weights.vector(load_conv_taps(files, spec.name + ".conv_1d.weight"));
  conv_bias_ = weights.vector(load_vector(files, spec.name + ".conv_1d.bias"));
  input_gate_ = gate("input_gate");
  recurrence_gate_ = gate("recurrent_gate");
  rate_ = weights.vector(load_rg_lru_rates(files, spec));
}

std::size_t RgLruBlock::mixing_workspace(const StepSize& size) const {
  const auto width = static_cast<std::size_t>(shape_.channels);
  return size.padded() * 3 * width * sizeof(float) + 4 * Workspace::kAlignment +
         gc::rg_lru_workspace(shape_, size.tiles);
}

// projected: [rows, y x].
template <class Row>
void RgLruBlock::mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const {
  Workspace& workspace = step.workspace;
  const std::size_t rows = step.size.padded();
  const auto width = static_cast<std::size_t>(shape_.channels);
  auto* u = workspace.take<float>(rows * width);
  auto* input_gate = workspace.take<float>(rows * width);
  auto* recurrence_gate = workspace.take<float>(rows * width);
  std::byte* inside = workspace.bytes(gc::rg_lru_workspace(shape_, step.size.tiles));
  gc::causal_conv(conv_, step.batch,
                  gc::CausalConvPass<Row>{.x = projected + width,
                                          .stride = in().weight.rows,
                                          .weight = taps_,
                                          .bias = conv_bias_,
                                          .exports = step.exports},
                  u, step.stream);
  const auto size = static_cast<std::size_t>(input_gate_.outputs);
  const gc::BlockRows<const float> from{.first = u, .row = width, .block = size};
  gc::block_product(input_gate_, step.size.rows, from, {.first = input_gate, .row = width, .block = size},
                    step.stream);
  gc::block_product(recurrence_gate_, step.size.rows, from,
                    {.first = recurrence_gate, .row = width, .block = size}, step.stream);
  gc::rg_lru(shape_, step.batch,
             gc::RgLruPass<Row>{.x = u,
                                .input_gate = input_gate,
                                .recurrence_gate = recurrence_gate,
                                .rate = rate_,
                                .branch = projected,
                                .branch_stride = in().weight.rows,
                                .out = mixed,
                                .workspace = inside,
                                .exports = step.exports},
             step.stream);
}

}  // namespace

std::unique_ptr<Part> make_part(const RgLruSpec& spec, BuildContext& context) {
  return std::make_unique<RgLruBlock>(spec, context.files, context.weights, context.state);
}

}  // namespace reprise::models::cuda
