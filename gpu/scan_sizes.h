#pragma once
// What a sequential scan on a GPU holds of a state, said where also those can ask who know no GPU.
//
// Threading: constants.

namespace reprise::gpu {

/// Numbers of a channel's state, or of a column's (gpu/cuda/scan.cuh).
inline constexpr int kMostScanNumbers = 256;

}  // namespace reprise::gpu
