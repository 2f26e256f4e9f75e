#pragma once
// The sizes up to which kernels on a GPU compute, for code that does not know the GPU, too.

#include <cstddef>

namespace reprise::gpu {

inline constexpr int kMostScanNumbers = 256;           // of a channel's or column's state (gpu/cuda/scan.cuh)
inline constexpr std::size_t kMostLatent = 512;        // elements of a latent of latent attention
inline constexpr std::size_t kMostStored = 640;        // and with its rotated part
inline constexpr std::size_t kMostRoutedOnGpu = 1024;  // experts that the router chooses from
inline constexpr std::size_t kMostChosenOnGpu = 32;    // and chooses

}  // namespace reprise::gpu
