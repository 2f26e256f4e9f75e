#pragma once
// Reads the hyperparameters of grouped-query attention. Errors are LoadErrors.

#include <optional>

#include "models/arch/config_source.h"
#include "models/parts/attention.h"

namespace reprise::models {

struct AttentionKeys {
  std::size_t hidden = 0;
  /// Default of config.json; nullopt, and for GGUF files without the key: hidden / heads.
  std::optional<std::size_t> hf_head_dim{};
  /// Index of a layer with attention; GGUF has biases if this layer has the tensors.
  std::size_t layer = 0;
};

/// Returns heads, sizes and biases; the family fills in name, norms, gate and rope.
AttentionSpec read_attention(const ConfigSource& source, const AttentionKeys& keys);

}  // namespace reprise::models
