// The delta rule with a decay for every channel of the keys, on lanes. Included by the kernel sources, with internal
// linkage. Token by token, so that a prompt gives the same bits however it is sliced.

#pragma once

#include <algorithm>

#include "gpu/cpu/math.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

void channel_gates(const ChannelGates& gates) {
  for (std::size_t head = 0; head < gates.heads; ++head) {
    const Lanes rate = Lanes::set(-gates.rate[head]);
    map(gates.dt_bias + head * gates.size, gates.decay + head * gates.size, gates.size,
        [&](Lanes bias, Lanes f) { return exp(rate * softplus(f + bias)); });
  }
  map(gates.beta, gates.beta, gates.heads, [](Lanes b, Lanes) { return sigmoid(b); });
}

/// kVectors * kLanes columns of the state, from column `first`, over all tokens.
template <int kVectors>
inline void channel_delta_columns(const ChannelDeltaRule& rule, std::size_t first) {
  for (std::size_t t = 0; t < rule.tokens; ++t) {
    const float* q = rule.q + t * rule.stride;
    const float* k = rule.k + t * rule.stride;
    const float* v = rule.v + t * rule.stride + first;
    const float* decay = rule.decay + t * rule.stride;
    const Lanes beta = Lanes::set(rule.beta[t * rule.beta_stride]);
    Lanes recalled[kVectors];  // k^T S behind the decay
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
    // Copies: for all that a compiler knows, what is stored into the state may be the rule itself.
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

void channel_delta_rule(const ChannelDeltaRule& rule) {
  std::size_t column = 0;
  for (; column + 4 * kLanes <= rule.value_dim; column += 4 * kLanes) channel_delta_columns<4>(rule, column);
  for (; column < rule.value_dim; column += kLanes) channel_delta_columns<1>(rule, column);
}

}  // namespace
}  // namespace reprise::gpu
