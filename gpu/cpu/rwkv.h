// RWKV-7 and its norms on lanes (gpu/rwkv.h). Included by the kernel sources, with internal linkage.

#pragma once

#include <algorithm>
#include <cmath>

#include "gpu/cpu/math.h"
#include "gpu/rwkv.h"

namespace reprise::gpu {
namespace {

void token_shift(const TokenShift& shift, std::size_t begin, std::size_t end) {
  for (std::size_t c = begin; c < end; c += kLanes) {
    const std::size_t count = std::min(kLanes, end - c);
    const auto read = [&](const float* p) { return count == kLanes ? Lanes::load(p) : load_some(p, count); };
    Lanes previous = read(shift.previous + c);
    for (std::size_t t = 0; t < shift.tokens; ++t) {
      const std::size_t at = t * shift.size + c;
      const Lanes x = read(shift.x + at);
      const Lanes difference = previous - x;
      for (std::size_t m = 0; m < shift.mixes; ++m) {
        const Lanes mixed = fma(difference, read(shift.mix + m * shift.size + c), x);
        store_some(mixed, shift.y + m * shift.table + at, count);
      }
      previous = x;
    }
    store_some(previous, shift.previous + c, count);
  }
}

/// kVectors * kLanes columns of the state, from column `first`, over all tokens.
template <int kVectors>
inline void wkv_columns(const WkvRule& rule, std::size_t first) {
  for (std::size_t t = 0; t < rule.tokens; ++t) {
    const std::size_t at = t * rule.stride;
    Lanes recalled[kVectors];  // key^T S
    Lanes out[kVectors];
    Lanes value[kVectors];
    for (int j = 0; j < kVectors; ++j) {
      recalled[j] = out[j] = Lanes::set(0.0F);
      value[j] = Lanes::load(rule.v + at + first + j * kLanes);
    }
    for (std::size_t i = 0; i < rule.head_dim; ++i) {
      const float* row = rule.state + i * rule.head_dim + first;
      const Lanes key = Lanes::set(rule.key[at + i]);
      for (int j = 0; j < kVectors; ++j) recalled[j] = fma(key, Lanes::load(row + j * kLanes), recalled[j]);
    }
    for (std::size_t i = 0; i < rule.head_dim; ++i) {
      float* row = rule.state + i * rule.head_dim + first;
      const Lanes decay = Lanes::set(rule.decay[at + i]);
      const Lanes removed = Lanes::set(-(rule.key[at + i] * rule.rate[at + i]));
      const Lanes k = Lanes::set(rule.k[at + i]);
      const Lanes r = Lanes::set(rule.r[at + i]);
      for (int j = 0; j < kVectors; ++j) {
        Lanes updated = Lanes::load(row + j * kLanes) * decay;
        updated = fma(removed, recalled[j], updated);
        updated = fma(k, value[j], updated);
        updated.store(row + j * kLanes);
        out[j] = fma(r, updated, out[j]);
      }
    }
    for (int j = 0; j < kVectors; ++j) out[j].store(rule.out + at + first + j * kLanes);
  }
}

void wkv_rule(const WkvRule& rule) {
  std::size_t column = 0;
  for (; column + 4 * kLanes <= rule.head_dim; column += 4 * kLanes) wkv_columns<4>(rule, column);
  for (; column < rule.head_dim; column += kLanes) wkv_columns<1>(rule, column);
}

inline float sum_of(const float* x, std::size_t size) {
  Lanes total = Lanes::set(0.0F);
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) total = total + Lanes::load(x + i);
  if (i < size) total = total + load_some(x + i, size - i);
  return sum(total);
}

void layer_norm(const LayerNorm& norm) {
  const auto size = static_cast<float>(norm.size);
  for (std::size_t row = 0; row < norm.rows; ++row) {
    const float* x = norm.x + row * norm.size;
    const float* weight = norm.weight + row % norm.groups * norm.size;
    const float* bias = norm.bias + row % norm.groups * norm.size;
    float* y = norm.y + row * norm.size;
    const float mean = sum_of(x, norm.size) / size;
    for (std::size_t i = 0; i < norm.size; ++i) y[i] = x[i] - mean;
    const float scale = 1.0F / std::sqrt(sum_of_squares(y, norm.size) / size + norm.eps);
    for (std::size_t i = 0; i < norm.size; ++i) y[i] = std::fma(y[i] * scale, weight[i], bias[i]);
  }
}

/// y = relu(y)^2
void relu_squared(float* y, std::size_t count) {
  map(y, y, count, [](Lanes x, Lanes) {
    const Lanes positive = max(x, Lanes::set(0.0F));
    return positive * positive;
  });
}

}  // namespace
}  // namespace reprise::gpu
