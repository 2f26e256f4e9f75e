// Conversions, norms, gates and rope, on lanes. Included by the kernel sources, with internal linkage.

#pragma once

#include "gpu/cpu/math.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

void to_bf16(const float* x, std::uint16_t* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = f32_to_bf16(x[i]);
}

inline float sum_of_squares(const float* x, std::size_t size) {
  Lanes total = Lanes::set(0.0F);
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Lanes value = Lanes::load(x + i);
    total = fma(value, value, total);
  }
  if (i < size) {
    const Lanes value = load_some(x + i, size - i);
    total = fma(value, value, total);
  }
  return sum(total);
}

void rms_norm(const float* x, const float* w, float offset, float eps, float* y, std::size_t rows,
              std::size_t size, std::size_t stride) {
  for (std::size_t row = 0; row < rows; ++row) {
    const float* from = x + row * stride;
    float* to = y + row * stride;
    const float scale = 1.0F / std::sqrt(sum_of_squares(from, size) / static_cast<float>(size) + eps);
    for (std::size_t i = 0; i < size; ++i) to[i] = (from[i] * scale) * (offset + w[i]);
  }
}

void l2_norm(const float* x, float eps, float scale, float* y, std::size_t rows, std::size_t size,
             std::size_t stride) {
  for (std::size_t row = 0; row < rows; ++row) {
    const float* from = x + row * stride;
    float* to = y + row * stride;
    const float factor = (1.0F / std::sqrt(sum_of_squares(from, size) + eps)) * scale;
    for (std::size_t i = 0; i < size; ++i) to[i] = from[i] * factor;
  }
}

void add(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] += x[i];
}

void scale(float factor, float* x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] *= factor;
}

void soft_cap(float cap, float* x, std::size_t count) {
  const Lanes all = Lanes::set(cap);
  const Lanes zero = Lanes::set(0.0F);
  // x * 0 is 0, or NaN where x is not finite.
  map(x, x, count, [&](Lanes value, Lanes) { return fma(value, zero, all * tanh(value / all)); });
}

void relu_squared(float* x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float positive = x[i] < 0.0F ? 0.0F : x[i];  // NaN stays
    x[i] = positive * positive;
  }
}

void swiglu(const float* gate, const float* up, float* y, std::size_t count) {
  std::size_t i = 0;
  const auto at = [&](std::size_t k) { return silu(Lanes::load(gate + k)) * Lanes::load(up + k); };
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {  // as map does
    const Lanes first = at(i);
    const Lanes second = at(i + kLanes);
    first.store(y + i);
    second.store(y + i + kLanes);
  }
  for (; i + kLanes <= count; i += kLanes) at(i).store(y + i);
  if (i < count) {
    store_some(silu(load_some(gate + i, count - i)) * load_some(up + i, count - i), y + i, count - i);
  }
}

void gate_silu(const float* gate, float* y, std::size_t count) {
  map(gate, y, count, [](Lanes g, Lanes value) { return silu(g) * value; });
}

void gate_gelu(const float* gate, float* y, std::size_t count) {
  map(gate, y, count, [](Lanes g, Lanes value) { return gelu(g) * value; });
}

void gate_sigmoid(const float* gate, float* y, std::size_t count) {
  map(gate, y, count, [](Lanes g, Lanes value) { return sigmoid(g) * value; });
}

void rope(float* head, const float* cosine, const float* sine, std::size_t half) {
  for (std::size_t i = 0; i < half; ++i) {
    const float first = head[i];
    const float second = head[i + half];
    head[i] = first * cosine[i] - second * sine[i];
    head[i + half] = second * cosine[i] + first * sine[i];
  }
}

void delta_gates(const float* a, const float* b, const float* decay, const float* dt_bias, float* g,
                 float* beta, std::size_t heads) {
  for (std::size_t h = 0; h < heads; ++h) {
    const double x = static_cast<double>(a[h] + dt_bias[h]);
    const double softplus = x > 20.0 ? x : std::log1p(std::exp(x));
    g[h] = -decay[h] * static_cast<float>(softplus);
    beta[h] = 1.0F / (1.0F + exp_of(-b[h]));
  }
}

}  // namespace
}  // namespace reprise::gpu
