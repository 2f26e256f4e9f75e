#pragma once
// Reads rotary position embedding. Errors are LoadErrors.

#include <memory>

#include "models/arch/config_source.h"
#include "models/parts/rope.h"

namespace reprise::models {

struct RopeKeys {
  std::size_t head_dim = 0;
  std::size_t context_length = 0;
  double hf_theta = 10000;        // default of config.json
  double hf_part = 1;             // rotated fraction of a head, default of config.json; GGUF: 1
  bool interleaved_axes = false;  // position axes (time, height, width) interleave
};

/// Returns the validated configuration with its frequencies computed.
std::shared_ptr<const RopeConfig> read_rope(const ConfigSource& source, const RopeKeys& keys);

/// The rotated part of a head, for families that restrict its values further than read_rope() does.
inline constexpr Key kRopeDimension{"partial_rotary_factor", "rope.dimension_count"};

}  // namespace reprise::models
