// The gated delta rule, token by token, so that a prompt gives the same bits however it is sliced, and a decoded token the
// same as a prefilled one. Included by the kernel sources, with internal linkage.
//
// Columns of the state do not meet, so as many of them as the first cache holds pass through all tokens. What the next
// token's key finds is summed up while this token's change is written: the state is walked through once a token. Sums are
// indexed by constants alone: g++ 12 stores them at every step otherwise.

#pragma once

#include "gpu/cpu/lanes.h"
#include "gpu/cpu/math.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

/// recalled = k^T S: rows of the state in their order.
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

/// One token. recalled: k^T S before the decay, afterwards that of the next token, if there is one (kMore).
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
  // Copies: for all that a compiler knows, what is stored into the state may be the rule itself.
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

/// kVectors * kWidth columns of the state, from column `first`, over all tokens.
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

inline constexpr std::size_t kCopiedKeys = 128;  // rows of the state at most that are copied
inline constexpr std::size_t kCopiedTokens = 4;  // at least so many are worth it

/// The same on a copy of the columns. Where they lie, rows of them stand a power of two apart, and so in few sets of the
/// first cache, which then does not keep them.
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

}  // namespace
}  // namespace reprise::gpu
