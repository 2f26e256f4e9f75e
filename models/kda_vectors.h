#pragma once
// Small tensors of Kimi Delta Attention in the layout of its kernels; the same for all devices.

#include <vector>

#include "models/checkpoint.h"
#include "models/layers/kda_spec.h"

namespace reprise::models {

inline constexpr float kKdaUnitEps = 1e-6F;  // eps of the L2 norms of q and k

/// exp(A_log), [heads]. Throws LoadError.
std::vector<float> load_kda_rates(const Checkpoint& checkpoint, const KdaSpec& spec);

}  // namespace reprise::models
