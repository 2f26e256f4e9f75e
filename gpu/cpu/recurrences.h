// Recurrences and the causal convolution (gpu/kernels.h). They run token by token, so that the bits depend
// neither on prefill slices nor on the phase.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/cpu/lanes.h"
#include "gpu/cpu/math.h"
#include "gpu/cpu/rows.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

// Causal convolution.

/// Convolves channels [begin, end) of one token; input(j) returns the input row of tap j, oldest first.
/// kTaps: number of taps; 0: conv.taps.
template <std::size_t kTaps, class Rows>
inline void convolve_token(const CausalConv& conv, const Rows& input, std::size_t begin, std::size_t end,
                           float* y) {
  const std::size_t taps = kTaps != 0 ? kTaps : conv.taps;
  const auto sum_of = [&]<class Vector>(std::size_t c, auto read) {
    Vector total = conv.bias != nullptr ? read(conv.bias + c) : Vector::set(0.0F);
    for (std::size_t j = 0; j < taps; ++j) {
      total = fma(read(conv.weight + j * conv.channels + c), read(input(j) + c), total);
    }
    return total;
  };
  std::size_t c = begin;
  for (; c + 2 * kWideLanes <= end; c += 2 * kWideLanes) {  // two vectors at a time, as map()
    const auto load = [](const float* p) { return WideLanes::load(p); };
    WideLanes first = sum_of.template operator()<WideLanes>(c, load);
    WideLanes second = sum_of.template operator()<WideLanes>(c + kWideLanes, load);
    if (conv.silu) {
      first = silu(first);
      second = silu(second);
    }
    first.store(y + c);
    second.store(y + c + kWideLanes);
  }
  for (; c < end; c += kLanes) {
    const std::size_t count = std::min(kLanes, end - c);
    const Lanes total =
        sum_of.template operator()<Lanes>(c, [&](const float* p) { return load_some(p, count); });
    store_some(conv.silu ? silu(total) : total, y + c, count);
  }
}

template <std::size_t kTaps>
inline void convolve(const CausalConv& conv, std::size_t begin, std::size_t end) {
  const std::size_t past = conv.taps - 1;
  const std::size_t x_stride = conv.x_stride != 0 ? conv.x_stride : conv.channels;
  // The input row of token t - past; rows before the first token are in the state.
  const auto input_row = [&](std::size_t t) {
    return t >= past ? conv.x + (t - past) * x_stride : conv.state + t * conv.channels;
  };
  for (std::size_t t = 0; t < conv.tokens; ++t) {
    float* y = conv.y + t * conv.channels;
    if constexpr (kTaps != 0) {
      const float* rows[kTaps];
      for (std::size_t j = 0; j < kTaps; ++j) rows[j] = input_row(t + j);
      convolve_token<kTaps>(
          conv, [&](std::size_t j) { return rows[j]; }, begin, end, y);
    } else {
      convolve_token<0>(
          conv, [&](std::size_t j) { return input_row(t + j); }, begin, end, y);
    }
  }
  for (std::size_t j = 0; j < past; ++j) {  // ascending: rows are read before they are overwritten
    const float* from = input_row(conv.tokens + j);
    float* to = conv.state + j * conv.channels;
    if (from != to) std::copy(from + begin, from + end, to + begin);
  }
}

void causal_conv(const CausalConv& conv, std::size_t begin, std::size_t end) {
  if (conv.taps == 4) return convolve<4>(conv, begin, end);
  convolve<0>(conv, begin, end);
}

// The gated delta rule. Columns of the state are independent, so as many columns as fit L1 run through all
// tokens. While a token's update is written, k^T S of the next token is accumulated, so the state is
// traversed once per token. Arrays of accumulators are indexed by constants only; g++ 12 spills them at every
// step otherwise.

/// recalled = k^T S, over the rows of the state in ascending order.
template <class Vector, std::size_t kWidth, int kVectors>
inline void recall(const DeltaRule& rule, const float* k, const float* columns,
                   Vector (&recalled)[kVectors]) {
  Vector sums[kVectors];
  for_each_index<kVectors>([&](auto j) __attribute__((always_inline)) { sums[j] = Vector::set(0.0F); });
  const float* row = columns;
  for (std::size_t i = 0; i < rule.key_dim; ++i, row += rule.value_dim) {
    const Vector key = Vector::set(k[i]);
    for_each_index<kVectors>([&](auto j) __attribute__((always_inline)) {
      sums[j] = fma(key, Vector::load(row + j * kWidth), sums[j]);
    });
  }
  for_each_index<kVectors>([&](auto j) __attribute__((always_inline)) { recalled[j] = sums[j]; });
}

/// Computes one token. recalled: k^T S before the decay; on return, that of the next token if kMore.
template <bool kMore, class Vector, std::size_t kWidth, int kVectors>
inline void delta_token(const DeltaRule& rule, std::size_t t, std::size_t first,
                        Vector (&recalled)[kVectors]) {
  const float* q = rule.q + t * rule.stride;
  const float* k = rule.k + t * rule.stride;
  const float* v = rule.v + t * rule.stride + first;
  [[maybe_unused]] const float* next_k = k + rule.stride;
  const Vector decay = Vector::set(exp_of(rule.g[t * rule.gate_stride]));
  const Vector beta = Vector::set(rule.beta[t * rule.gate_stride]);
  Vector change[kVectors];
  Vector out[kVectors];
  Vector next[kVectors];
  for_each_index<kVectors>([&](auto j) __attribute__((always_inline)) {
    change[j] = beta * (Vector::load(v + j * kWidth) - recalled[j] * decay);
    out[j] = next[j] = Vector::set(0.0F);
  });
  // Local copies, because stores to the state may alias the rule.
  const std::size_t key_dim = rule.key_dim;
  const std::size_t value_dim = rule.value_dim;
  float* row = rule.state + first;
  for (std::size_t i = 0; i < key_dim; ++i, row += value_dim) {
    const Vector key = Vector::set(k[i]);
    const Vector query = Vector::set(q[i]);
    [[maybe_unused]] Vector next_key;
    if constexpr (kMore) next_key = Vector::set(next_k[i]);
    for_each_index<kVectors>([&](auto j) __attribute__((always_inline)) {
      const Vector updated = fma(key, change[j], Vector::load(row + j * kWidth) * decay);
      updated.store(row + j * kWidth);
      out[j] = fma(query, updated, out[j]);
      if constexpr (kMore) next[j] = fma(next_key, updated, next[j]);
    });
  }
  float* const to = rule.out + t * rule.out_stride + first;
  for_each_index<kVectors>([&](auto j) __attribute__((always_inline)) {
    out[j].store(to + j * kWidth);
    recalled[j] = next[j];
  });
}

/// Runs kVectors * kWidth columns of the state, from column `first`, through all tokens.
template <class Vector, std::size_t kWidth, int kVectors>
inline void delta_rule_columns(const DeltaRule& rule, std::size_t first) {
  if (rule.tokens == 0) return;
  Vector recalled[kVectors];
  recall<Vector, kWidth>(rule, rule.k, rule.state + first, recalled);
  for (std::size_t t = 0; t + 1 < rule.tokens; ++t) {
    delta_token<true, Vector, kWidth>(rule, t, first, recalled);
  }
  delta_token<false, Vector, kWidth>(rule, rule.tokens - 1, first, recalled);
}

inline constexpr std::size_t kCopiedKeys = 128;  // max rows of the state that are copied
inline constexpr std::size_t kCopiedTokens = 4;  // min tokens for which copying pays

/// delta_rule_columns() on a contiguous copy of the columns. In place, the rows are a power of two apart and
/// so compete for few sets of L1.
template <class Vector, std::size_t kWidth, int kVectors>
inline void delta_rule_of_copy(const DeltaRule& rule, std::size_t first) {
  constexpr std::size_t kColumns = kWidth * kVectors;
  alignas(64) float columns[kCopiedKeys * kColumns];
  const auto for_each_row = [&](auto work) {
    for (std::size_t i = 0; i < rule.key_dim; ++i) {
      work(rule.state + i * rule.value_dim + first, columns + i * kColumns);
    }
  };
  for_each_row([](float* row, float* copy) { std::memcpy(copy, row, kColumns * sizeof(float)); });
  DeltaRule of_copy = rule;
  of_copy.state = columns;
  of_copy.value_dim = kColumns;
  of_copy.v += first;
  of_copy.out += first;
  delta_rule_columns<Vector, kWidth, kVectors>(of_copy, 0);
  for_each_row([](float* row, float* copy) { std::memcpy(row, copy, kColumns * sizeof(float)); });
}

void delta_rule(const DeltaRule& rule) {
  const bool copies = rule.key_dim <= kCopiedKeys && rule.tokens >= kCopiedTokens;
  std::size_t column = 0;
  for (; column + 4 * kWideLanes <= rule.value_dim; column += 4 * kWideLanes) {
    if (copies) {
      delta_rule_of_copy<WideLanes, kWideLanes, 4>(rule, column);
    } else {
      delta_rule_columns<WideLanes, kWideLanes, 4>(rule, column);
    }
  }
  for (; column < rule.value_dim; column += kLanes) delta_rule_columns<Lanes, kLanes, 1>(rule, column);
}

// The delta rule with one decay per key channel (Kimi Delta Attention).

void channel_gates(const ChannelGates& gates) {
  for (std::size_t head = 0; head < gates.heads; ++head) {
    const Lanes rate = Lanes::set(-gates.rate[head]);
    map(gates.dt_bias + head * gates.size, gates.decay + head * gates.size, gates.size,
        [&](Lanes bias, Lanes f) { return exp(rate * softplus(f + bias)); });
  }
  map(gates.beta, gates.beta, gates.heads, [](Lanes b, Lanes) { return sigmoid(b); });
}

/// Runs kVectors * kLanes columns of the state, from column `first`, through all tokens.
template <int kVectors>
inline void kda_columns(const KdaRule& rule, std::size_t first) {
  for (std::size_t t = 0; t < rule.tokens; ++t) {
    const float* q = rule.q + t * rule.stride;
    const float* k = rule.k + t * rule.stride;
    const float* v = rule.v + t * rule.stride + first;
    const float* decay = rule.decay + t * rule.stride;
    const Lanes beta = Lanes::set(rule.beta[t * rule.beta_stride]);
    Lanes recalled[kVectors];  // k^T S after the decay
    Lanes out[kVectors];
    for (int j = 0; j < kVectors; ++j) recalled[j] = out[j] = Lanes::set(0.0F);
    for (std::size_t i = 0; i < rule.key_dim; ++i) {
      const float* row = rule.state + i * rule.value_dim + first;
      const Lanes key = Lanes::set(k[i] * decay[i]);
      for (int j = 0; j < kVectors; ++j) {
        recalled[j] = fma(key, Lanes::load(row + j * kLanes), recalled[j]);
      }
    }
    Lanes change[kVectors];
    for (int j = 0; j < kVectors; ++j) change[j] = beta * (Lanes::load(v + j * kLanes) - recalled[j]);
    const std::size_t key_dim = rule.key_dim;
    const std::size_t value_dim = rule.value_dim;
    float* row = rule.state + first;
    for (std::size_t i = 0; i < key_dim; ++i, row += value_dim) {
      const Lanes key = Lanes::set(k[i]);
      const Lanes query = Lanes::set(q[i]);
      const Lanes faded = Lanes::set(decay[i]);
      for (int j = 0; j < kVectors; ++j) {
        const Lanes updated = fma(key, change[j], Lanes::load(row + j * kLanes) * faded);
        updated.store(row + j * kLanes);
        out[j] = fma(query, updated, out[j]);
      }
    }
    for (int j = 0; j < kVectors; ++j) out[j].store(rule.out + t * rule.stride + first + j * kLanes);
  }
}

void kda_rule(const KdaRule& rule) {
  std::size_t column = 0;
  for (; column + 4 * kLanes <= rule.value_dim; column += 4 * kLanes) kda_columns<4>(rule, column);
  for (; column < rule.value_dim; column += kLanes) kda_columns<1>(rule, column);
}

// The selective scan of Mamba-1: lanes are the channels of a group.

/// Runs `count` <= kLanes channels, from channel c, through all tokens.
inline void scan_group(const SelectiveScan& scan, std::size_t c, std::size_t count) {
  const auto read = [&](const float* p) { return count == kLanes ? Lanes::load(p) : load_some(p, count); };
  float* state = scan.state + c * scan.state_size;
  const float* a = scan.a + c * scan.state_size;
  const Lanes skip = read(scan.skip + c);
  for (std::size_t t = 0; t < scan.tokens; ++t) {
    const Lanes x = read(scan.x + t * scan.channels + c);
    const Lanes dt = softplus(read(scan.step + t * scan.channels + c));
    const Lanes change = dt * x;
    const float* b = scan.b + t * scan.bc_stride;
    const float* out = scan.c + t * scan.bc_stride;
    Lanes total = Lanes::set(0.0F);
    for (std::size_t n = 0; n < scan.state_size; ++n) {
      float* h = state + n * kLanes;
      const Lanes kept = exp(dt * Lanes::load(a + n * kLanes)) * Lanes::load(h);
      const Lanes updated = fma(change, Lanes::set(b[n]), kept);
      updated.store(h);
      total = fma(updated, Lanes::set(out[n]), total);
    }
    const Lanes y = fma(skip, x, total) * silu(read(scan.gate + t * scan.gate_stride + c));
    float* to = scan.y + t * scan.channels + c;
    if (count == kLanes) {
      y.store(to);
    } else {
      store_some(y, to, count);
    }
  }
}

void selective_scan(const SelectiveScan& scan, std::size_t begin, std::size_t end) {
  for (std::size_t c = begin; c < end; c += kLanes) scan_group(scan, c, std::min(kLanes, scan.channels - c));
}

// The recurrence of Mamba-2: lanes are columns of the state.

inline float mamba2_step(const Mamba2& mamba2, std::size_t token) {
  const double x =
      static_cast<double>(mamba2.dt_scale * mamba2.step[token * mamba2.step_stride] + mamba2.dt_bias);
  const double softplus = x > 20.0 ? x : std::log1p(std::exp(x));
  return std::min(std::max(static_cast<float>(softplus), mamba2.dt_min), mamba2.dt_max);
}

/// dt and decay of up to kMax tokens, shared by all columns.
struct Mamba2Steps {
  static constexpr std::size_t kMax = 64;
  std::size_t first;
  std::size_t count;
  float dt[kMax];
  float decay[kMax];
};

/// Runs kVectors * kLanes columns of the state, from column `first`; if kVectors is 1, `count` columns.
template <int kVectors>
inline void mamba2_columns(const Mamba2& mamba2, const Mamba2Steps& steps, std::size_t first,
                           std::size_t count) {
  const auto read = [&](const float* p) {
    return kVectors > 1 || count == kLanes ? Lanes::load(p) : load_some(p, count);
  };
  const auto write = [&](Lanes value, float* p) {
    if (kVectors > 1 || count == kLanes) {
      value.store(p);
    } else {
      store_some(value, p, count);
    }
  };
  for (std::size_t i = 0; i < steps.count; ++i) {
    const std::size_t t = steps.first + i;
    const Lanes decay = Lanes::set(steps.decay[i]);
    const float* b = mamba2.b + t * mamba2.stride;
    const float* c = mamba2.c + t * mamba2.stride;
    Lanes change[kVectors];  // dt x
    Lanes y[kVectors];
    for (int j = 0; j < kVectors; ++j) {
      const Lanes x = read(mamba2.x + t * mamba2.stride + first + j * kLanes);
      change[j] = x * Lanes::set(steps.dt[i]);
      y[j] = x * Lanes::set(mamba2.skip);
    }
    for (std::size_t n = 0; n < mamba2.state_size; ++n) {
      float* row = mamba2.state + n * mamba2.head_dim + first;
      const Lanes in = Lanes::set(b[n]);
      const Lanes out = Lanes::set(c[n]);
      for (int j = 0; j < kVectors; ++j) {
        const Lanes updated = fma(in, change[j], read(row + j * kLanes) * decay);
        write(updated, row + j * kLanes);
        y[j] = fma(out, updated, y[j]);
      }
    }
    for (int j = 0; j < kVectors; ++j) write(y[j], mamba2.y + t * mamba2.y_stride + first + j * kLanes);
  }
}

void mamba2(const Mamba2& mamba2) {
  Mamba2Steps steps;
  for (steps.first = 0; steps.first < mamba2.tokens; steps.first += Mamba2Steps::kMax) {
    steps.count = std::min(Mamba2Steps::kMax, mamba2.tokens - steps.first);
    for (std::size_t i = 0; i < steps.count; ++i) {
      steps.dt[i] = mamba2_step(mamba2, steps.first + i);
      steps.decay[i] = exp_of(-mamba2.decay * steps.dt[i]);
    }
    std::size_t column = 0;
    for (; column + 4 * kLanes <= mamba2.head_dim; column += 4 * kLanes) {
      mamba2_columns<4>(mamba2, steps, column, kLanes);
    }
    for (; column < mamba2.head_dim; column += kLanes) {
      mamba2_columns<1>(mamba2, steps, column, std::min(kLanes, mamba2.head_dim - column));
    }
  }
}

// RG-LRU and its block-diagonal GEMM.

/// Computes `count` <= kLanes outputs from output n of kRows rows, `stride` apart. Rows share the reads of
/// the weight; each has its own sum.
template <int kRows>
inline void block_outputs(const float* x, std::size_t stride, const float* weight, std::size_t size,
                          std::size_t n, std::size_t count, Lanes bias, float* y) {
  Lanes sums[kRows];
  for (Lanes& sum : sums) sum = bias;
  for (std::size_t i = 0; i < size; ++i) {
    const float* from = weight + i * size + n;
    const Lanes w = count == kLanes ? Lanes::load(from) : load_some(from, count);
    for (int row = 0; row < kRows; ++row) {
      sums[row] = fma(Lanes::set(x[static_cast<std::size_t>(row) * stride + i]), w, sums[row]);
    }
  }
  for (int row = 0; row < kRows; ++row)
    store_some(sums[row], y + static_cast<std::size_t>(row) * stride + n, count);
}

void block_diagonal(const BlockDiagonal& product, std::size_t begin, std::size_t end) {
  constexpr int kAtOnce = 4;
  const std::size_t size = product.size;
  const std::size_t stride = product.blocks * size;
  for (std::size_t block = begin; block < end; ++block) {
    const float* weight = product.weight + block * size * size;
    const float* bias = product.bias + block * size;
    for (std::size_t n = 0; n < size; n += kLanes) {
      const std::size_t count = std::min(kLanes, size - n);
      const Lanes first = count == kLanes ? Lanes::load(bias + n) : load_some(bias + n, count);
      std::size_t row = 0;
      for (; row + kAtOnce <= product.rows; row += kAtOnce) {
        const std::size_t at = row * stride + block * size;
        block_outputs<kAtOnce>(product.x + at, stride, weight, size, n, count, first, product.y + at);
      }
      for (; row < product.rows; ++row) {
        const std::size_t at = row * stride + block * size;
        block_outputs<1>(product.x + at, stride, weight, size, n, count, first, product.y + at);
      }
    }
  }
}

/// Runs `count` <= kLanes channels, from channel c, through all tokens.
inline void rg_lru_channels(const RgLru& unit, std::size_t c, std::size_t count) {
  const auto read = [&](const float* p) { return count == kLanes ? Lanes::load(p) : load_some(p, count); };
  const Lanes rate = read(unit.rate + c);
  const Lanes zero = Lanes::set(0.0F);
  const Lanes one = Lanes::set(1.0F);
  Lanes h = read(unit.state + c);
  for (std::size_t t = 0; t < unit.tokens; ++t) {
    const std::size_t at = t * unit.channels + c;
    const Lanes x = read(unit.x + at) * sigmoid(read(unit.input_gate + at));
    if (unit.begins && t == 0) {
      h = x;
    } else {
      const Lanes log_decay = rate * sigmoid(read(unit.recurrence_gate + at));
      const Lanes left = sqrt(max(one - exp(log_decay + log_decay), zero));
      h = fma(exp(log_decay), h, x * left);
    }
    store_some(h, unit.out + at, count);
  }
  store_some(h, unit.state + c, count);
}

void rg_lru(const RgLru& unit, std::size_t begin, std::size_t end) {
  for (std::size_t c = begin; c < end; c += kLanes) rg_lru_channels(unit, c, std::min(kLanes, end - c));
}

// RWKV-7.

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

/// Runs kVectors * kLanes columns of the state, from column `first`, through all tokens.
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
  // The epsilon keeps a zero key zero.
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
