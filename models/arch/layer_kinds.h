#pragma once
// Reads which layers are attention and which are recurrent: Hugging Face's `layer_types` or its GGUF
// equivalents. Errors are LoadErrors.

#include <cstdint>
#include <vector>

#include "models/arch/config_source.h"

namespace reprise::models {

enum class LayerKind : std::uint8_t { kFullAttention, kLinearAttention };

/// Kinds of the layers of a hybrid model. If the source does not list them, layer i is attention if (i + 1)
/// is a multiple of the source's `full_attention_interval`, or else of `interval`.
std::vector<LayerKind> read_layer_kinds(const ConfigSource& source, std::size_t layers, std::size_t interval);

/// Fails if config.json lists layers of linear attention.
void refuse_linear_attention(const ConfigSource& source, std::size_t layers);

}  // namespace reprise::models
