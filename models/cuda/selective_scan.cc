#include <vector>

#include "gpu/cuda/recurrence/causal_conv.h"
#include "gpu/cuda/recurrence/selective_scan.h"
#include "models/cuda/part.h"
#include "models/parts/selective_scan.h"

namespace reprise::models::cuda {
namespace {

constexpr float kLog2OfE = 1.44269504F;

class SelectiveScan : public MixerOfRows<SelectiveScan> {
 public:
  SelectiveScan(const SelectiveScanSpec& spec, const ModelFiles& files, WeightStore& weights,
                StateLayout& state);

 private:
  friend class MixerOfRows<SelectiveScan>;
  std::size_t mixing_workspace(const StepSize& size) const override;
  template <class Row>
  void mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const;
  /// Adapters cannot change dt_, whose inputs may be padded.
  std::vector<InnerProduct> inner_products() const override {
    return {{&x_, gc::GemmOutput::kF32}, {&dt_, gc::GemmOutput::kF32, false}};
  }

  gc::SelectiveScanShape shape_;
  gc::CausalConvShape conv_;
  gc::ScanNormWeights norms_;
  const float* taps_ = nullptr;       // [taps, inner]
  const float* conv_bias_ = nullptr;  // [inner]; null: none
  const float* a_ = nullptr;
  const float* skip_ = nullptr;  // [inner]
  DeviceLinear x_;               // dt, B, C
  DeviceLinear dt_;              // inputs may be padded
};

SelectiveScan::SelectiveScan(const SelectiveScanSpec& spec, const ModelFiles& files, WeightStore& weights,
                             StateLayout& state)
    : MixerOfRows(weights.linear({spec.name + ".in_proj"}), weights.linear({spec.name + ".out_proj"}),
                  Norms::kApart),
      x_(weights.linear({spec.name + ".x_proj"})),
      dt_(weights.linear({spec.name + ".dt_proj"}, WeightStore::Inputs::kFilledUp)) {
  const SelectiveScanOffsets offsets = declare_state(spec, state);
  shape_ = {.channels = static_cast<int>(spec.inner),
            .state_size = static_cast<int>(spec.state_size),
            .step_rank = static_cast<int>(spec.step_rank),
            .state_offset = offsets.state};
  conv_ = {.channels = static_cast<int>(spec.inner),
           .taps = static_cast<int>(spec.conv_kernel),
           .silu = true,
           .state_offset = offsets.conv};
  SelectiveScanParameters parameters = load_selective_scan_parameters(files, spec);
  for (float& a : parameters.a) a *= kLog2OfE;  // the kernel uses exp2
  taps_ = weights.vector(parameters.conv);
  if (!parameters.conv_bias.empty()) conv_bias_ = weights.vector(parameters.conv_bias);
  a_ = weights.vector(parameters.a);
  skip_ = weights.vector(parameters.skip);
  if (!parameters.has_norms()) return;
  norms_ = {.dt = weights.vector(parameters.dt_norm),
            .b = weights.vector(parameters.b_norm),
            .c = weights.vector(parameters.c_norm),
            .offset = spec.norm.offset,
            .eps = spec.norm.eps};
}

std::size_t SelectiveScan::mixing_workspace(const StepSize& size) const {
  const auto halves = static_cast<std::size_t>(dt_.weight.columns + shape_.channels);
  const auto floats = static_cast<std::size_t>(x_.weight.rows + dt_.weight.rows);
  return size.padded() * (halves * size.element() + floats * sizeof(float)) + 5 * Workspace::kAlignment +
         gc::selective_scan_workspace(shape_, size.tiles);
}

// projected [rows, 2, inner]: x, z.
template <class Row>
void SelectiveScan::mix_rows(const CudaStep& step, const Row* projected, Row* mixed) const {
  Workspace& workspace = step.workspace;
  const std::size_t rows = step.size.padded();
  const auto width = [&](const DeviceLinear& linear) {
    return rows * static_cast<std::size_t>(linear.weight.rows);
  };
  auto* convolved = workspace.take<Row>(rows * static_cast<std::size_t>(shape_.channels));
  auto* dt_b_c = workspace.take<float>(width(x_));
  auto* low = workspace.take<Row>(rows * static_cast<std::size_t>(dt_.weight.columns));
  auto* dt = workspace.take<float>(width(dt_));
  std::byte* inside = workspace.bytes(gc::selective_scan_workspace(shape_, step.size.tiles));
  gc::causal_conv(conv_, step.batch,
                  gc::CausalConvPass<Row>{.x = projected,
                                          .stride = in().weight.rows,
                                          .weight = taps_,
                                          .bias = conv_bias_,
                                          .exports = step.exports},
                  convolved, step.stream);
  step.multiply(convolved, x_, dt_b_c, gc::GemmOutput::kF32);
  gc::separate_scan_inputs(shape_, norms_, step.size.rows, dt_b_c, x_.weight.rows, low, dt_.weight.columns,
                           step.stream);
  step.multiply(low, dt_, dt, gc::GemmOutput::kF32);
  gc::selective_scan(shape_, step.batch,
                     gc::SelectiveScanPass<Row>{.a = a_,
                                                .skip = skip_,
                                                .x = convolved,
                                                .step = dt,
                                                .step_stride = dt_.weight.rows,
                                                .b = dt_b_c + shape_.step_rank,
                                                .bc_stride = x_.weight.rows,
                                                .gate = projected + shape_.channels,
                                                .gate_stride = in().weight.rows,
                                                .out = mixed,
                                                .workspace = inside,
                                                .exports = step.exports},
                     step.stream);
}

}  // namespace

std::unique_ptr<Part> make_part(const SelectiveScanSpec& spec, BuildContext& context) {
  return std::make_unique<SelectiveScan>(spec, context.files, context.weights, context.state);
}

}  // namespace reprise::models::cuda
