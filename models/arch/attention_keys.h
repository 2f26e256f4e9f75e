#pragma once
// The keys of grouped-query attention.
//
// Threading: pure functions. What is wrong ends in a LoadError.

#include <optional>

#include "models/arch/config_source.h"
#include "models/parts/attention.h"

namespace reprise::models {

struct AttentionKeys {
  std::size_t hidden = 0;
  /// Where config.json is silent; none, and for GGUF always: hidden / heads.
  std::optional<std::size_t> hf_head_dim{};
  /// A layer that has attention: of its tensors GGUF learns whether there are biases.
  std::size_t layer = 0;
};

/// Heads, sizes and biases; name, norms, gate and rope are left for the family to fill in.
AttentionSpec read_attention(const ConfigSource& source, const AttentionKeys& keys);

}  // namespace reprise::models
