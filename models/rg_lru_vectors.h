#pragma once
// The small tensors of RG-LRU as its kernels want them, the same for all devices.
//
// Threading: pure functions.

#include <vector>

#include "models/checkpoint.h"
#include "models/parts/rg_lru.h"

namespace reprise::models {

/// [width]: -8 softplus(recurrent_param). Throws LoadError.
std::vector<float> load_rg_lru_rates(const Checkpoint& checkpoint, const RgLruSpec& spec);

}  // namespace reprise::models
