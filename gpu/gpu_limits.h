#pragma once
// Maximum sizes of the GPU kernels, usable without CUDA.

#include <cstddef>

namespace reprise::gpu {

inline constexpr int kMaxScanNumbers =
    256;  // state elements per channel or column (cuda/recurrence/scan.cuh)
inline constexpr std::size_t kMaxLatent = 512;        // elements of a latent (latent attention)
inline constexpr std::size_t kMaxStored = 640;        // elements of a latent and its rotated part together
inline constexpr std::size_t kMaxRoutedOnGpu = 1024;  // experts of a layer
inline constexpr std::size_t kMaxChosenOnGpu = 32;    // experts chosen per row

}  // namespace reprise::gpu
