#pragma once
// The small tensors of Kimi Delta Attention as its kernels want them, the same for all devices.
//
// Threading: pure functions.

#include <vector>

#include "models/checkpoint.h"
#include "models/parts/kda.h"

namespace reprise::models {

inline constexpr float kKdaUnitEps = 1e-6F;  // of the norms that give q and k unit length

/// [heads]: exp(A_log). Throws LoadError.
std::vector<float> load_kda_rates(const Checkpoint& checkpoint, const KdaSpec& spec);

}  // namespace reprise::models
