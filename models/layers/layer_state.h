#pragma once
// What the layers keep, declared once for every device that computes them.
//
// Threading: pure functions on the layout given.

#include <string>

#include "gpu/compute.h"
#include "models/arch/config.h"
#include "models/layers/state_layout.h"

namespace reprise::models {

inline std::size_t size_of(gpu::KvType kv) {
  return kv == gpu::KvType::kF32 ? sizeof(float) : sizeof(std::uint16_t);
}

/// Where a page has K and V of an attention layer, each [kv_heads, kPageTokens, head_dim].
struct AttentionPlaces {
  std::size_t k;
  std::size_t v;
};

inline AttentionPlaces declare_attention(StateLayout& state, const std::string& prefix,
                                         const AttentionConfig& config, gpu::KvType kv) {
  const std::size_t k = state.add_per_token(prefix + ".k", config.kv_size * size_of(kv));
  const std::size_t v = state.add_per_token(prefix + ".v", config.kv_size * size_of(kv));
  return {k, v};
}

/// Where a slot has the state of a Gated DeltaNet layer, f32: the last inputs of the convolution [taps - 1,
/// channels], and the matrices [value_heads, key_head_dim, value_head_dim].
struct DeltaNetPlaces {
  std::size_t conv;
  std::size_t matrices;
};

inline DeltaNetPlaces declare_delta_net(StateLayout& state, const std::string& prefix,
                                        const LinearAttentionConfig& config) {
  const std::size_t conv = state.add_per_sequence(prefix + ".conv", config.conv_state_size * sizeof(float));
  const std::size_t matrices = state.add_per_sequence(prefix + ".state", config.state_size * sizeof(float));
  return {conv, matrices};
}

}  // namespace reprise::models
