#include "models/cpu/gated_delta_net.h"

#include <cmath>

#include "models/checkpoint.h"
#include "models/files/load_error.h"

namespace reprise::models {

namespace {
constexpr float kL2Eps = 1e-6F;
constexpr std::size_t kChannelsAtOnce = 64;
}  // namespace

GatedDeltaNet::GatedDeltaNet(const Checkpoint& checkpoint, const std::string& prefix, StateLayout& state)
    : config_(checkpoint.config().linear),
      qkv_(checkpoint, prefix + ".in_proj_qkv"),
      z_(checkpoint, prefix + ".in_proj_z"),
      b_(checkpoint, prefix + ".in_proj_b"),
      a_(checkpoint, prefix + ".in_proj_a"),
      out_(checkpoint, prefix + ".out_proj"),
      vectors_(load_delta_net_vectors(checkpoint, prefix)),
      norm_{vectors_.norm, 0.0F, checkpoint.config().rms_eps},
      places_(declare_delta_net(state, prefix, config_)) {
  if (config_.value_head_dim % gpu::kLanes != 0) {
    throw LoadError(checkpoint.path(), "linear_value_head_dim", "must be a multiple of 8");
  }
}

/// inputs, outputs [rows, channels]
void GatedDeltaNet::convolve(Step& step, const float* inputs, float* outputs) const {
  for (const StepSlice& slice : step.slices) {
    const std::size_t first = slice.first_row * config_.conv_channels;
    const gpu::CausalConv conv{.state = reinterpret_cast<float*>(slice.sequence->slot_data() + places_.conv),
                               .weight = vectors_.conv.data(),
                               .x = inputs + first,
                               .y = outputs + first,
                               .channels = config_.conv_channels,
                               .taps = config_.conv_kernel,
                               .tokens = slice.rows};
    step.threads.for_ranges(config_.conv_channels, kChannelsAtOnce, [&](std::size_t begin, std::size_t end) {
      step.kernels.causal_conv(conv, begin, end);
    });
  }
}

/// qkv [rows, channels]: q and k of each head to unit length, q scaled besides.
void GatedDeltaNet::normalise_heads(Step& step, float* qkv) const {
  const float scale = 1.0F / std::sqrt(static_cast<float>(config_.key_head_dim));
  step.threads.for_ranges(step.rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      float* q = qkv + row * config_.conv_channels;
      float* k = q + config_.key_size;
      const std::size_t size = config_.key_head_dim;
      step.kernels.l2_norm(q, kL2Eps, scale, q, config_.key_heads, size, size);
      step.kernels.l2_norm(k, kL2Eps, 1.0F, k, config_.key_heads, size, size);
    }
  });
}

/// qkv [rows, channels], g and beta [rows, value_heads] -> out [rows, value_heads, value_head_dim]
void GatedDeltaNet::recur(Step& step, const float* qkv, const float* g, const float* beta, float* out) const {
  const std::size_t heads = config_.value_heads;
  step.threads.for_parts(step.slices.size() * heads, [&](std::size_t part) {
    const StepSlice& slice = step.slices[part / heads];
    const std::size_t head = part % heads;
    const float* first = qkv + slice.first_row * config_.conv_channels;
    const float* key = first + head / config_.group * config_.key_head_dim;
    auto* state = reinterpret_cast<float*>(slice.sequence->slot_data() + places_.matrices);
    step.kernels.delta_rule(
        {.state = state + head * config_.key_head_dim * config_.value_head_dim,
         .key_dim = config_.key_head_dim,
         .value_dim = config_.value_head_dim,
         .tokens = slice.rows,
         .q = key,
         .k = key + config_.key_size,
         .v = first + 2 * config_.key_size + head * config_.value_head_dim,
         .stride = config_.conv_channels,
         .g = g + slice.first_row * heads + head,
         .beta = beta + slice.first_row * heads + head,
         .gate_stride = heads,
         .out = out + slice.first_row * config_.value_size + head * config_.value_head_dim,
         .out_stride = config_.value_size});
  });
}

void GatedDeltaNet::apply(Step& step, const float* x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t rows = step.rows;
  const std::size_t heads = config_.value_heads;
  float* projected = step.scratch.floats(rows * config_.conv_channels);
  float* qkv = step.scratch.floats(rows * config_.conv_channels);
  float* z = step.scratch.floats(rows * config_.value_size);
  float* a = step.scratch.floats(rows * heads);
  float* b = step.scratch.floats(rows * heads);
  float* mixed = step.scratch.floats(rows * config_.value_size);
  qkv_.apply(step, x, rows, projected);
  z_.apply(step, x, rows, z);
  a_.apply(step, x, rows, a);
  b_.apply(step, x, rows, b);
  convolve(step, projected, qkv);
  normalise_heads(step, qkv);
  for (std::size_t row = 0; row < rows; ++row) {
    float* row_a = a + row * heads;
    float* row_b = b + row * heads;
    step.kernels.delta_gates(row_a, row_b, vectors_.decay.data(), vectors_.dt_bias.data(), row_a, row_b,
                             heads);
  }
  recur(step, qkv, a, b, mixed);
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    const std::size_t size = config_.value_head_dim;
    float* first = mixed + begin * config_.value_size;
    step.kernels.rms_norm(first, norm_.weight.data(), norm_.offset, norm_.eps, first, (end - begin) * heads,
                          size, size);
    step.kernels.gate_silu(z + begin * config_.value_size, first, (end - begin) * config_.value_size);
  });
  out_.apply(step, mixed, rows, y);
  step.scratch.reset(mark);
}

}  // namespace reprise::models
