#pragma once
// A Gated DeltaNet layer with random weights, input rows, the plain CPU kernels' results, and batches of them
// on a GPU.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "gpu/cuda/recurrence/gated_delta_net.h"
#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {

inline std::uint16_t round_to_bf16(float value) {
  std::uint16_t bits = 0;
  plain().to_bf16(&value, &bits, 1);
  return bits;
}

template <class Row>
Row as_element(float value) {
  if constexpr (std::is_same_v<Row, float>) {
    return value;
  } else {
    return round_to_bf16(value);
  }
}
inline float value_of(cuda::Bf16 element) {
  return from_bf16(element);
}
inline float value_of(float element) {
  return element;
}

struct GatedDeltaNetLayer {
  cuda::GatedDeltaNetShape shape;
  std::vector<float> conv, decay, dt_bias, norm;
  float eps = 1e-6F;
  int stride;  // elements per row of inputs
  std::size_t slot_bytes;

  GatedDeltaNetLayer(Random& random, int key_heads, int value_heads, int key_dim, int value_dim, int taps = 4)
      : shape{.key_heads = key_heads,
              .value_heads = value_heads,
              .key_dim = key_dim,
              .value_dim = value_dim,
              .taps = taps} {
    const auto channels = static_cast<std::size_t>(shape.channels());
    const std::size_t history = static_cast<std::size_t>(taps - 1) * channels * sizeof(float);
    shape.conv_offset = 64;
    shape.state_offset = (shape.conv_offset + history + 63) / 64 * 64;
    slot_bytes = shape.state_offset + state_size() * sizeof(float) + 64;
    conv = random.floats(static_cast<std::size_t>(taps) * channels, 0.5F);
    const auto heads = static_cast<std::size_t>(value_heads);
    decay = random.between(heads, 0.01F, 16.0F);
    dt_bias = random.between(heads, -7.0F, 1.0F);  // some heads forget at once, some hardly ever
    norm = random.between(static_cast<std::size_t>(value_dim), 0.5F, 1.5F);
    stride = shape.channels() + shape.value_size() + 2 * value_heads + 2;
  }

  std::size_t state_size() const {
    return static_cast<std::size_t>(shape.value_heads) * static_cast<std::size_t>(shape.key_dim) *
           static_cast<std::size_t>(shape.value_dim);
  }
  std::size_t history_size() const {
    return static_cast<std::size_t>(shape.taps - 1) * static_cast<std::size_t>(shape.channels());
  }
  std::vector<float> state_of(const std::vector<std::byte>& slot) const {
    std::vector<float> state(state_size());
    std::memcpy(state.data(), slot.data() + shape.state_offset, state.size() * sizeof(float));
    return state;
  }
  std::vector<float> history_of(const std::vector<std::byte>& slot) const {
    std::vector<float> history(history_size());
    std::memcpy(history.data(), slot.data() + shape.conv_offset, history.size() * sizeof(float));
    return history;
  }
};

template <class Row>
struct GatedDeltaNetRows {
  std::vector<Row> projected;
  std::vector<std::byte> slot;

  std::size_t count(const GatedDeltaNetLayer& layer) const {
    return projected.size() / static_cast<std::size_t>(layer.stride);
  }
  /// Rows [begin, end), with another initial slot.
  GatedDeltaNetRows part(const GatedDeltaNetLayer& layer, std::size_t begin, std::size_t end,
                         const std::vector<std::byte>& before) const {
    const auto stride = static_cast<std::ptrdiff_t>(layer.stride);
    return {.projected = {projected.begin() + static_cast<std::ptrdiff_t>(begin) * stride,
                          projected.begin() + static_cast<std::ptrdiff_t>(end) * stride},
            .slot = before};
  }
};

template <class Row>
GatedDeltaNetRows<Row> random_rows(Random& random, const GatedDeltaNetLayer& layer, std::size_t rows,
                                   bool fresh) {
  GatedDeltaNetRows<Row> made;
  for (const float value : random.floats(rows * static_cast<std::size_t>(layer.stride))) {
    made.projected.push_back(as_element<Row>(value));
  }
  made.slot.resize(layer.slot_bytes);
  if (fresh) return made;
  const std::vector<float> state = random.floats(layer.state_size(), 0.3F);
  std::vector<float> history = random.floats(layer.history_size());
  for (float& value : history) value = value_of(as_element<Row>(value));
  std::memcpy(made.slot.data() + layer.shape.state_offset, state.data(), state.size() * sizeof(float));
  std::memcpy(made.slot.data() + layer.shape.conv_offset, history.data(), history.size() * sizeof(float));
  return made;
}

struct GatedDeltaNetResult {
  std::vector<float> out;  // [rows, value_size]
  std::vector<float> state;
  std::vector<float> history;
};

/// Composes the layer as models/cpu/gated_delta_net.cc does. `rounded`: rounds q, k and v to bf16 before the
/// delta rule, as the GPU's prefill does.
template <class Row>
GatedDeltaNetResult gated_delta_net_on_cpu(const GatedDeltaNetLayer& layer,
                                           const GatedDeltaNetRows<Row>& input, bool rounded) {
  const auto to_size = [](int n) { return static_cast<std::size_t>(n); };
  const cuda::GatedDeltaNetShape& shape = layer.shape;
  const std::size_t rows = input.count(layer);
  const std::size_t channels = to_size(shape.channels());
  const std::size_t values = to_size(shape.value_size());
  const std::size_t heads = to_size(shape.value_heads);
  const std::size_t key_dim = to_size(shape.key_dim);
  const std::size_t value_dim = to_size(shape.value_dim);
  const std::size_t key_size = to_size(shape.key_heads) * key_dim;
  std::vector<float> x, z, a, b;
  for (std::size_t row = 0; row < rows; ++row) {
    const Row* from = input.projected.data() + row * to_size(layer.stride);
    const auto take = [&](std::vector<float>& to, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) to.push_back(value_of(*from++));
    };
    take(x, channels);
    take(z, values);
    take(b, heads);
    take(a, heads);
  }
  GatedDeltaNetResult result{.out = std::vector<float>(rows * values),
                             .state = layer.state_of(input.slot),
                             .history = layer.history_of(input.slot)};
  std::vector<float> qkv(rows * channels);
  plain().causal_conv({.state = result.history.data(),
                       .weight = layer.conv.data(),
                       .x = x.data(),
                       .y = qkv.data(),
                       .channels = channels,
                       .taps = to_size(shape.taps),
                       .tokens = rows},
                      0, channels);
  const float scale = 1.0F / std::sqrt(static_cast<float>(key_dim));
  for (std::size_t row = 0; row < rows; ++row) {
    float* q = qkv.data() + row * channels;
    plain().l2_norm(q, 1e-6F, scale, q, to_size(shape.key_heads), key_dim, key_dim);
    plain().l2_norm(q + key_size, 1e-6F, 1.0F, q + key_size, to_size(shape.key_heads), key_dim, key_dim);
    plain().delta_gates(a.data() + row * heads, b.data() + row * heads, layer.decay.data(),
                        layer.dt_bias.data(), a.data() + row * heads, b.data() + row * heads, heads);
  }
  if (rounded) {
    for (float& value : qkv) value = from_bf16(round_to_bf16(value));
  }
  for (std::size_t head = 0; head < heads; ++head) {
    const float* key = qkv.data() + head / (heads / to_size(shape.key_heads)) * key_dim;
    plain().delta_rule({.state = result.state.data() + head * key_dim * value_dim,
                        .key_dim = key_dim,
                        .value_dim = value_dim,
                        .tokens = rows,
                        .q = key,
                        .k = key + key_size,
                        .v = qkv.data() + 2 * key_size + head * value_dim,
                        .stride = channels,
                        .g = a.data() + head,
                        .beta = b.data() + head,
                        .gate_stride = heads,
                        .out = result.out.data() + head * value_dim,
                        .out_stride = values});
  }
  plain().rms_norm(result.out.data(), layer.norm.data(), 0.0F, layer.eps, result.out.data(), rows * heads,
                   value_dim, value_dim);
  plain().gate_silu(z.data(), result.out.data(), rows * values);
  return result;
}

/// sqrt(mean((x - reference)^2) / mean(reference^2))
inline double relative_error(const std::vector<float>& x, const std::vector<float>& reference) {
  EXPECT_EQ(x.size(), reference.size());
  double wrong = 0;
  double whole = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double difference = static_cast<double>(x[i]) - reference[i];
    wrong += difference * difference;
    whole += static_cast<double>(reference[i]) * reference[i];
  }
  return std::isfinite(wrong) ? std::sqrt(wrong / std::max(whole, 1e-30)) : 1e30;
}

}  // namespace reprise::gpu::test
