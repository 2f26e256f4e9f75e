// RWKV-7 and its norms on lanes (gpu/rwkv.h). Included by the kernel sources, with internal linkage.

#pragma once

#include <algorithm>
#include <cmath>

#include "gpu/cpu/elementwise.h"
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

void to_tanh(float* x, std::size_t count) {
  map(x, x, count, [](Lanes value, Lanes) { return tanh(value); });
}

void to_sigmoid(float* x, std::size_t count) {
  map(x, x, count, [](Lanes value, Lanes) { return sigmoid(value); });
}

void wkv_gates(const WkvGates& gates) {
  const std::size_t size = gates.heads * gates.head_dim;
  const Lanes one = Lanes::set(1.0F);
  const Lanes slowest = Lanes::set(-0.606530660F);  // -e^-0.5
  for (std::size_t row = 0; row < gates.rows; ++row) {
    const std::size_t first = row * size;
    for (std::size_t i = 0; i < size; i += kLanes) {
      const std::size_t count = std::min(kLanes, size - i);
      const std::size_t at = first + i;
      const auto read = [&](const float* p) {
        return count == kLanes ? Lanes::load(p) : load_some(p, count);
      };
      const Lanes k = read(gates.k + at);
      const Lanes rate = sigmoid(read(gates.rate + at));
      store_some(exp(slowest * sigmoid(read(gates.decay + at))), gates.decay + at, count);
      store_some(rate, gates.rate + at, count);
      store_some(k * read(gates.key_scale + i), gates.key + at, count);
      store_some(k * fma(rate - one, read(gates.rate_scale + i), one), gates.k + at, count);
      if (gates.mix == nullptr) continue;
      const Lanes v = read(gates.v + at);
      const Lanes mixed = fma(read(gates.first + at) - v, sigmoid(read(gates.mix + at)), v);
      store_some(mixed, gates.v + at, count);
    }
  }
  // A key of no length stays so.
  l2_norm(gates.key, 1e-24F, 1.0F, gates.key, gates.rows * gates.heads, gates.head_dim, gates.head_dim);
}

void wkv_output(const WkvOutput& output) {
  const std::size_t size = output.head_dim;
  for (std::size_t row = 0; row < output.rows * output.heads; ++row) {
    const std::size_t first = row * size;
    const float* bonus = output.bonus + row % output.heads * size;
    const auto each = [&](auto use) {
      for (std::size_t i = 0; i < size; i += kLanes) {
        const std::size_t count = std::min(kLanes, size - i);
        use(i, count,
            [count](const float* p) { return count == kLanes ? Lanes::load(p) : load_some(p, count); });
      }
    };
    Lanes total = Lanes::set(0.0F);
    each([&](std::size_t i, std::size_t, auto read) {
      total = fma(read(output.r + first + i) * read(output.k + first + i), read(bonus + i), total);
    });
    const Lanes share = Lanes::set(sum(total));
    each([&](std::size_t i, std::size_t count, auto read) {
      Lanes y = fma(share, read(output.v + first + i), read(output.y + first + i));
      if (output.gate != nullptr) y = y * read(output.gate + first + i);
      store_some(y, output.y + first + i, count);
    });
  }
}

}  // namespace
}  // namespace reprise::gpu
