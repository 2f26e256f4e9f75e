#pragma once
// Reads the hyperparameters of multi-head latent attention, with DeepSeek's key names. Errors are LoadErrors.

#include "models/arch/config_source.h"
#include "models/parts/mla.h"

namespace reprise::models {

struct MlaKeys {
  std::size_t hidden = 0;
  NormKind norm{.offset = 0, .eps = 1e-6F};  // norm of the latents; no key has its eps
};

/// Returns sizes, biases and a score scale of 1 / sqrt(key_dim); the family fills in name, rope and other
/// scales.
MlaSpec read_mla(const HfSource& source, const MlaKeys& keys);

}  // namespace reprise::models
