#pragma once
// The keys of multi-head latent attention, as DeepSeek named them.
//
// Threading: pure functions. What is wrong ends in a LoadError.

#include "models/arch/config_source.h"
#include "models/parts/mla.h"

namespace reprise::models {

struct MlaKeys {
  std::size_t hidden = 0;
  NormKind norm{.offset = 0, .eps = 1e-6F};  // of the latents: no key says their eps
};

/// Sizes, biases and a score scale of 1 / sqrt(key_dim); name, rope and other scales are left for the family.
MlaSpec read_mla(const HfSource& source, const MlaKeys& keys);

}  // namespace reprise::models
