#include "models/parts/mamba2.h"
#include "models/cpu/linear.h"
#include "models/cpu/part.h"
#include "models/cpu/slot_exports.h"
#include "models/model_files.h"

namespace reprise::models::cpu {
namespace {

constexpr std::size_t kMamba2ChannelsAtOnce = 64;

class Mamba2 : public Part {
 public:
  Mamba2(const Mamba2Spec& spec, const ModelFiles& files, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    in_.prepare(how);
    out_.prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"Mamba-2"};
    return kSite;
  }

 private:
  void convolve(Step& step, const float* projected, float* mixed) const;
  void recur(Step& step, const float* projected, const float* mixed, float* y) const;
  void gate(Step& step, float* projected, float* y) const;
  void normalize(const gpu::Kernels& kernels, float* row) const;

  const Mamba2Spec spec_;
  Linear in_;
  Linear out_;
  Mamba2Parameters parameters_;
  Mamba2Offsets offsets_;
};

Mamba2::Mamba2(const Mamba2Spec& spec, const ModelFiles& files, StateLayout& state)
    : spec_(spec),
      in_(files, spec.name + ".in_proj"),
      out_(files, spec.name + ".out_proj"),
      parameters_(load_mamba2_parameters(files, spec)),
      offsets_(declare_state(spec, state)) {}

/// projected [rows, in_proj_rows] -> mixed [rows, channels]
void Mamba2::convolve(Step& step, const float* projected, float* mixed) const {
  const std::size_t stride = spec_.in_proj_rows();
  for (const StepSlice& slice : step.slices) {
    const gpu::CausalConv conv{
        .state = reinterpret_cast<float*>(slice.sequence->slot_data() + offsets_.conv),
        .weight = parameters_.conv.data(),
        .x = projected + slice.first_row * stride + spec_.inner_size(),
        .y = mixed + slice.first_row * spec_.conv_channels(),
        .channels = spec_.conv_channels(),
        .taps = spec_.conv_kernel,
        .tokens = slice.rows,
        .x_stride = stride,
        .bias = parameters_.conv_bias.empty() ? nullptr : parameters_.conv_bias.data()};
    step.threads.for_ranges(
        spec_.conv_channels(), kMamba2ChannelsAtOnce,
        [&](std::size_t begin, std::size_t end) { step.kernels.causal_conv(conv, begin, end); });
  }
}

/// projected [rows, in_proj_rows], mixed [rows, channels] -> y [rows, heads, head_dim]
void Mamba2::recur(Step& step, const float* projected, const float* mixed, float* y) const {
  const std::size_t heads = spec_.heads;
  const std::size_t inner = spec_.inner_size();
  step.threads.for_parts(step.slices.size() * heads, [&](std::size_t part) {
    const StepSlice& slice = step.slices[part / heads];
    const std::size_t head = part % heads;
    const float* row = mixed + slice.first_row * spec_.conv_channels();
    const float* b = row + inner + head / spec_.heads_of_group() * spec_.state_size;
    auto* state = reinterpret_cast<float*>(slice.sequence->slot_data() + offsets_.matrices);
    step.kernels.mamba2({.state = state + head * spec_.state_size * spec_.head_dim,
                         .state_size = spec_.state_size,
                         .head_dim = spec_.head_dim,
                         .tokens = slice.rows,
                         .x = row + head * spec_.head_dim,
                         .b = b,
                         .c = b + spec_.groups * spec_.state_size,
                         .stride = spec_.conv_channels(),
                         .step = projected + (slice.first_row + 1) * spec_.in_proj_rows() - heads + head,
                         .step_stride = spec_.in_proj_rows(),
                         .dt_scale = spec_.multipliers.dt,
                         .dt_bias = parameters_.dt_bias[head],
                         .dt_min = spec_.dt_min,
                         .dt_max = spec_.dt_max,
                         .decay = parameters_.decay[head],
                         .skip = parameters_.skip[head],
                         .y = y + slice.first_row * inner + head * spec_.head_dim,
                         .y_stride = inner});
  });
}

/// Normalizes one row [inner_size], each group separately.
void Mamba2::normalize(const gpu::Kernels& kernels, float* row) const {
  const std::size_t size = spec_.group_size();
  for (std::size_t group = 0; group < spec_.groups; ++group) {
    float* part = row + group * size;
    kernels.rms_norm(part, parameters_.norm.data() + group * size, spec_.norm.offset, spec_.norm.eps, part, 1,
                     size, size);
  }
}

/// projected [rows, in_proj_rows] begins with z; y [rows, inner_size]
void Mamba2::gate(Step& step, float* projected, float* y) const {
  const std::size_t inner = spec_.inner_size();
  step.threads.for_ranges(step.rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      float* z = projected + row * spec_.in_proj_rows();
      float* out = y + row * inner;
      if (spec_.multipliers.z != 1) step.kernels.scale(spec_.multipliers.z, z, inner);
      if (spec_.gating == Mamba2Spec::Gating::kNormThenGate) normalize(step.kernels, out);
      step.kernels.gate_silu(z, out, inner);
      if (spec_.gating == Mamba2Spec::Gating::kGateThenNorm) normalize(step.kernels, out);
    }
  });
}

void Mamba2::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  float* projected = step.scratch.floats(step.rows * spec_.in_proj_rows());
  float* mixed = step.scratch.floats(step.rows * spec_.conv_channels());
  float* inner = step.scratch.floats(step.rows * spec_.inner_size());
  in_.apply(step, x, step.rows, projected);
  run_with_exports(step, {offsets_.conv, spec_.conv_state_elements() * sizeof(float)},
                   [&] { convolve(step, projected, mixed); });
  run_with_exports(step, {offsets_.matrices, spec_.state_elements() * sizeof(float)},
                   [&] { recur(step, projected, mixed, inner); });
  gate(step, projected, inner);
  out_.apply(step, inner, step.rows, y);
  step.scratch.reset(mark);
}

}  // namespace

std::unique_ptr<Part> make_part(const Mamba2Spec& spec, BuildContext& context) {
  return std::make_unique<Mamba2>(spec, context.files, context.state);
}

}  // namespace reprise::models::cpu
