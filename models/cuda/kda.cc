#include <vector>

#include "gpu/cuda/recurrence/causal_conv.h"
#include "gpu/cuda/recurrence/kda.h"
#include "models/cuda/part.h"
#include "models/files/load_error.h"
#include "models/parts/kda.h"
#include "models/weight_tensors.h"

namespace reprise::models::cuda {
namespace {

class Kda : public PartOfRows<Kda> {
 public:
  Kda(const KdaSpec& spec, const ModelFiles& files, WeightStore& weights, StateLayout& state);
  std::size_t workspace(const StepSize& size) const override;
  void admit(const Admission& admission, gc::GemmOutput output) const override;
  std::vector<const DeviceLinear*> adaptable() const override {
    return {&in_, &b_, &f_a_, &f_b_, &g_a_, &g_b_, &out_};
  }

 private:
  friend class PartOfRows<Kda>;
  template <class Row>
  void apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const;

  gc::KdaShape shape_;
  gc::CausalConvShape convs_[3];  // q, k, v
  const float* taps_[3] = {};     // [taps, size] each
  const float* rate_ = nullptr;   // [heads]
  const float* dt_bias_ = nullptr;
  const float* norm_ = nullptr;  // [head_dim]
  NormKind norm_kind_;
  DeviceLinear in_;  // q, k, v
  DeviceLinear b_;
  DeviceLinear f_a_;  // decay: low-rank projection
  DeviceLinear f_b_;
  DeviceLinear g_a_;  // gate: low-rank projection
  DeviceLinear g_b_;
  DeviceLinear out_;
};

Kda::Kda(const KdaSpec& spec, const ModelFiles& files, WeightStore& weights, StateLayout& state)
    : in_(weights.linear({spec.name + ".q_proj", spec.name + ".k_proj", spec.name + ".v_proj"})),
      b_(weights.linear({spec.name + ".b_proj"})),
      f_a_(weights.linear({spec.name + ".f_a_proj"})),
      f_b_(weights.linear({spec.name + ".f_b_proj"})),
      g_a_(weights.linear({spec.name + ".g_a_proj"})),
      g_b_(weights.linear({spec.name + ".g_b_proj"})),
      out_(weights.linear({spec.name + ".o_proj"})) {
  if (spec.head_dim % 8 != 0) {
    throw LoadError(files.path(), "linear_head_dim", "must be a multiple of 8");
  }
  const KdaOffsets offsets = declare_state(spec, state);
  shape_ = {.heads = static_cast<int>(spec.heads),
            .head_dim = static_cast<int>(spec.head_dim),
            .state_offset = offsets.matrices};
  const char* const names[] = {".q_conv1d.weight", ".k_conv1d.weight", ".v_conv1d.weight"};
  for (std::size_t i = 0; i < 3; ++i) {
    convs_[i] = {.channels = static_cast<int>(spec.size()),
                 .taps = static_cast<int>(spec.conv_kernel),
                 .silu = true,
                 .state_offset = offsets.conv + i * spec.conv_state_size() * sizeof(float)};
    taps_[i] = weights.vector(load_conv_taps(files, spec.name + names[i]));
  }
  rate_ = weights.vector(load_kda_rates(files, spec));
  dt_bias_ = weights.vector(load_vector(files, spec.name + ".dt_bias"));
  norm_ = weights.vector(load_vector(files, spec.name + ".o_norm.weight"));
  norm_kind_ = spec.norm;
}

std::size_t Kda::workspace(const StepSize& size) const {
  const auto width = static_cast<std::size_t>(shape_.size());
  const auto rows_of = [](const DeviceLinear& linear) {
    return static_cast<std::size_t>(linear.weight.rows);
  };
  const std::size_t halves = rows_of(in_) + rows_of(f_a_) + rows_of(g_a_) + rows_of(g_b_) + width;
  const std::size_t floats = 4 * width + rows_of(f_b_) + rows_of(b_);
  return size.padded() * (halves * size.element() + floats * sizeof(float)) + 12 * Workspace::kAlignment +
         gc::kda_workspace(shape_, size.rows, size.tiles);
}

template <class Row>
void Kda::apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t rows = step.size.padded();
  const auto width = static_cast<std::size_t>(shape_.size());
  const auto outputs = [&](const DeviceLinear& linear) {
    return rows * static_cast<std::size_t>(linear.weight.rows);
  };
  auto* projected = workspace.take<Row>(outputs(in_));  // q, k, v
  float* qkv[3];
  for (float*& one : qkv) one = workspace.take<float>(rows * width);
  auto* beta = workspace.take<float>(outputs(b_));
  auto* f = workspace.take<Row>(outputs(f_a_));
  auto* decay = workspace.take<float>(outputs(f_b_));
  auto* g = workspace.take<Row>(outputs(g_a_));
  auto* gate = workspace.take<Row>(outputs(g_b_));
  auto* y = workspace.take<float>(rows * width);
  auto* gated = workspace.take<Row>(rows * width);
  std::byte* inside = workspace.bytes(gc::kda_workspace(shape_, step.size.rows, step.size.tiles));
  step.multiply(x, in_, projected, kRowsOf<Row>);
  step.multiply(x, b_, beta, gc::GemmOutput::kF32);
  step.multiply(x, f_a_, f, kRowsOf<Row>);
  step.multiply(f, f_b_, decay, gc::GemmOutput::kF32);
  step.multiply(x, g_a_, g, kRowsOf<Row>);
  step.multiply(g, g_b_, gate, kRowsOf<Row>);
  for (std::size_t i = 0; i < 3; ++i) {
    gc::causal_conv(convs_[i], step.batch,
                    gc::CausalConvPass<Row>{.x = projected + i * width,
                                            .stride = in_.weight.rows,
                                            .weight = taps_[i],
                                            .bias = nullptr,
                                            .exports = step.exports},
                    qkv[i], step.stream);
  }
  gc::kda(shape_, step.batch,
          {.q = qkv[0],
           .k = qkv[1],
           .v = qkv[2],
           .decay = decay,
           .beta = beta,
           .beta_stride = b_.weight.rows,
           .rate = rate_,
           .dt_bias = dt_bias_,
           .unit_eps = kKdaUnitEps,
           .token_after_token = step.size.precise,
           .out = y,
           .workspace = inside,
           .exports = step.exports},
          step.stream);
  gc::gate_kda(shape_, step.size.rows,
               gc::KdaGate<Row>{.y = y,
                                .gate = gate,
                                .gate_stride = g_b_.weight.rows,
                                .norm = norm_,
                                .norm_offset = norm_kind_.offset,
                                .norm_eps = norm_kind_.eps,
                                .out = gated},
               step.stream);
  step.multiply(gated, out_, to.y, to.how);
  workspace.reset(mark);
}

void Kda::admit(const Admission& admission, gc::GemmOutput output) const {
  for (const DeviceLinear* linear : {&in_, &f_a_, &g_a_, &g_b_}) {
    admission.admit(*linear, gc::GemmOutput::kBf16);
  }
  for (const DeviceLinear* linear : {&b_, &f_b_}) admission.admit(*linear, gc::GemmOutput::kF32);
  admission.admit(out_, output);
}

}  // namespace

std::unique_ptr<Part> make_part(const KdaSpec& spec, BuildContext& context) {
  return std::make_unique<Kda>(spec, context.files, context.weights, context.state);
}

}  // namespace reprise::models::cuda
