#pragma once
// Small tensors of RG-LRU in the layout of its kernels; the same for all devices.

#include <vector>

#include "models/checkpoint.h"
#include "models/layers/rg_lru_spec.h"

namespace reprise::models {

/// -8 softplus(recurrent_param), [width]. Throws LoadError.
std::vector<float> load_rg_lru_rates(const Checkpoint& checkpoint, const RgLruSpec& spec);

}  // namespace reprise::models
