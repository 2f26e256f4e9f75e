#pragma once
// What Qwen3-Next and Qwen3.5 have in common: three layers of Gated DeltaNet to one of gated attention with
// partial rope, each followed by a feed-forward part; zero-centred norms. A family says in what it differs.
//
// Threading: pure functions. What is wrong ends in a LoadError.

#include <cstdint>

#include "models/arch/config.h"
#include "models/arch/config_source.h"

namespace reprise::models {

struct QwenHybrid {
  enum class FeedForward : std::uint8_t {
    kDense,
    kExperts,           // in every layer, their weights normalised
    kExpertsSomewhere,  // where config.json's keys say so, as they say it
  };

  FeedForward feed_forward = FeedForward::kDense;
  bool interleaved_axes = true;  // of rope: positions of pictures have several
  bool fused_by_key_head =
      false;  // the projections of DeltaNet (GatedDeltaNetByKeyHead); else GatedDeltaNetInGguf
};

ModelConfig read_qwen_hybrid(const ConfigSource& source, const QwenHybrid& family);

}  // namespace reprise::models
