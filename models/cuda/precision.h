#pragma once
// In which of its two settings a GPU computes a model.
//
// Fast: rows between products are bf16, and so are keys and values unless they are asked for otherwise. Precise: they are f32,
// multiplied as sums of two bf16, and what stands between products is computed in f32; weights have to be kept as bf16.
//
// Threading: a pure function.

#include <cstdint>

#include "models/checkpoint.h"
#include "models/compute_options.h"

namespace reprise::models::cuda {

/// Weights up to which a model that may be computed either way is computed precisely: its steps are short either way.
inline constexpr std::uint64_t kPreciseByItself = std::uint64_t{64} << 20;

/// As the options say; Compute::kAuto leaves it to the model's size and formats. Throws LoadError for a model that is to be
/// computed precisely and cannot be: one with other weights than bf16, or whose experts the host computes.
bool computes_precisely(const Checkpoint& checkpoint, const ComputeOptions& options, bool has_host_experts);

}  // namespace reprise::models::cuda
