#pragma once
// What a source says about rotary position embedding.
//
// Threading: pure functions. What is wrong ends in a LoadError.

#include <memory>

#include "models/arch/config_source.h"
#include "models/parts/rope.h"

namespace reprise::models {

struct RopeKeys {
  std::size_t head_dim = 0;
  std::size_t context_length = 0;
  double hf_theta = 10000;        // where config.json is silent
  double hf_part = 1;             // of a head that is rotated, where config.json is silent; GGUF: all of it
  bool interleaved_axes = false;  // several axes of position (time, height, width) that take turns
};

/// Read, checked, its frequencies computed.
std::shared_ptr<const RopeConfig> read_rope(const ConfigSource& source, const RopeKeys& keys);

/// For families that allow less than read_rope() does.
inline constexpr Key kRopeDimension{"partial_rotary_factor", "rope.dimension_count"};

}  // namespace reprise::models
