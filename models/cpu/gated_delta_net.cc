#include <cmath>

#include "models/cpu/linear.h"
#include "models/cpu/part.h"
#include "models/cpu/slot_exports.h"
#include "models/files/load_error.h"
#include "models/model_files.h"
#include "models/parts/gated_delta_net.h"

namespace reprise::models::cpu {
namespace {

constexpr float kL2Eps = 1e-6F;
constexpr std::size_t kChannelsAtOnce = 64;

class GatedDeltaNet : public Part {
 public:
  GatedDeltaNet(const GatedDeltaNetSpec& spec, const ModelFiles& files, StateLayout& state);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override {
    for (const Linear* linear : {&qkv_, &z_, &b_, &a_, &out_}) linear->prepare(how);
  }
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"Gated DeltaNet"};
    return kSite;
  }

 private:
  void convolve(Step& step, const float* inputs, float* outputs) const;
  void normalize_heads(Step& step, float* qkv) const;
  void recur(Step& step, const float* qkv, const float* g, const float* beta, float* out) const;

  const GatedDeltaNetSpec spec_;
  Linear qkv_;
  Linear z_;
  Linear b_;
  Linear a_;
  Linear out_;
  GatedDeltaNetParameters parameters_;
  RmsNorm norm_;  // [value_head_dim]
  GatedDeltaNetOffsets offsets_;
};

GatedDeltaNet::GatedDeltaNet(const GatedDeltaNetSpec& spec, const ModelFiles& files, StateLayout& state)
    : spec_(spec),
      qkv_(files, spec.name + ".in_proj_qkv"),
      z_(files, spec.name + ".in_proj_z"),
      b_(files, spec.name + ".in_proj_b"),
      a_(files, spec.name + ".in_proj_a"),
      out_(files, spec.name + ".out_proj"),
      parameters_(load_gated_delta_net_parameters(files, spec)),
      norm_(parameters_.norm, spec.norm),
      offsets_(declare_state(spec, state)) {
  if (spec_.value_head_dim % gpu::kLanes != 0) {
    throw LoadError(files.path(), "linear_value_head_dim", "must be a multiple of 8");
  }
}

/// inputs, outputs [rows, channels]
void GatedDeltaNet::convolve(Step& step, const float* inputs, float* outputs) const {
  for (const StepSlice& slice : step.slices) {
    const std::size_t first = slice.first_row * spec_.conv_channels();
    const gpu::CausalConv conv{.state = reinterpret_cast<float*>(slice.sequence->slot_data() + offsets_.conv),
                               .weight = parameters_.conv.data(),
                               .x = inputs + first,
                               .y = outputs + first,
                               .channels = spec_.conv_channels(),
                               .taps = spec_.conv_kernel,
                               .tokens = slice.rows};
    step.threads.for_ranges(spec_.conv_channels(), kChannelsAtOnce, [&](std::size_t begin, std::size_t end) {
      step.kernels.causal_conv(conv, begin, end);
    });
  }
}

/// Normalizes q and k of each head in qkv [rows, channels] to unit length, and scales q by 1 /
/// sqrt(key_head_dim).
void GatedDeltaNet::normalize_heads(Step& step, float* qkv) const {
  const float scale = 1.0F / std::sqrt(static_cast<float>(spec_.key_head_dim));
  step.threads.for_ranges(step.rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      float* q = qkv + row * spec_.conv_channels();
      float* k = q + spec_.key_size();
      const std::size_t size = spec_.key_head_dim;
      step.kernels.l2_norm(q, kL2Eps, scale, q, spec_.key_heads, size, size);
      step.kernels.l2_norm(k, kL2Eps, 1.0F, k, spec_.key_heads, size, size);
    }
  });
}

/// qkv [rows, channels], g and beta [rows, value_heads] -> out [rows, value_heads, value_head_dim]
void GatedDeltaNet::recur(Step& step, const float* qkv, const float* g, const float* beta, float* out) const {
  const std::size_t heads = spec_.value_heads;
  step.threads.for_parts(step.slices.size() * heads, [&](std::size_t part) {
    const StepSlice& slice = step.slices[part / heads];
    const std::size_t head = part % heads;
    const float* first = qkv + slice.first_row * spec_.conv_channels();
    const float* key = first + head / spec_.group() * spec_.key_head_dim;
    auto* state = reinterpret_cast<float*>(slice.sequence->slot_data() + offsets_.matrices);
    step.kernels.delta_rule({.state = state + head * spec_.key_head_dim * spec_.value_head_dim,
                             .key_dim = spec_.key_head_dim,
                             .value_dim = spec_.value_head_dim,
                             .tokens = slice.rows,
                             .q = key,
                             .k = key + spec_.key_size(),
                             .v = first + 2 * spec_.key_size() + head * spec_.value_head_dim,
                             .stride = spec_.conv_channels(),
                             .g = g + slice.first_row * heads + head,
                             .beta = beta + slice.first_row * heads + head,
                             .gate_stride = heads,
                             .out = out + slice.first_row * spec_.value_size() + head * spec_.value_head_dim,
                             .out_stride = spec_.value_size()});
  });
}

void GatedDeltaNet::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t rows = step.rows;
  const std::size_t heads = spec_.value_heads;
  float* projected = step.scratch.floats(rows * spec_.conv_channels());
  float* qkv = step.scratch.floats(rows * spec_.conv_channels());
  float* z = step.scratch.floats(rows * spec_.value_size());
  float* a = step.scratch.floats(rows * heads);
  float* b = step.scratch.floats(rows * heads);
  float* mixed = step.scratch.floats(rows * spec_.value_size());
  LinearInput input(x, rows);
  qkv_.apply(step, input, projected);
  z_.apply(step, input, z);
  a_.apply(step, input, a);
  b_.apply(step, input, b);
  run_with_exports(step, {offsets_.conv, spec_.conv_state_size() * sizeof(float)},
                   [&] { convolve(step, projected, qkv); });
  normalize_heads(step, qkv);
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      float* row_a = a + row * heads;
      float* row_b = b + row * heads;
      step.kernels.delta_gates(row_a, row_b, parameters_.decay.data(), parameters_.dt_bias.data(), row_a,
                               row_b, heads);
    }
  });
  run_with_exports(step, {offsets_.matrices, spec_.state_size() * sizeof(float)},
                   [&] { recur(step, qkv, a, b, mixed); });
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    float* first = mixed + begin * spec_.value_size();
    norm_.apply_here(step.kernels, first, (end - begin) * heads, first);
    step.kernels.gate_silu(z + begin * spec_.value_size(), first, (end - begin) * spec_.value_size());
  });
  out_.apply(step, mixed, rows, y);
  step.scratch.reset(mark);
}

}  // namespace

std::unique_ptr<Part> make_part(const GatedDeltaNetSpec& spec, BuildContext& context) {
  return std::make_unique<GatedDeltaNet>(spec, context.files, context.state);
}

}  // namespace reprise::models::cpu
