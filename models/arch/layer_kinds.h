#pragma once
// Which layers attend and which recur, where a model has both: Hugging Face's `layer_types`, and the several
// ways in which GGUF files say it.
//
// Threading: pure functions. What is wrong ends in a LoadError.

#include <cstdint>
#include <vector>

#include "models/arch/config_source.h"

namespace reprise::models {

enum class LayerKind : std::uint8_t { kFullAttention, kLinearAttention };

/// Of a model that has both. Where the source does not name them, layer i attends if (i + 1) is a multiple of
/// its `full_attention_interval`, else of `interval`.
std::vector<LayerKind> read_layer_kinds(const ConfigSource& source, std::size_t layers, std::size_t interval);

/// Of a model that has attention alone.
void refuse_linear_attention(const ConfigSource& source, std::size_t layers);

}  // namespace reprise::models
