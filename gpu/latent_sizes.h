#pragma once
// What latent attention on a GPU holds of a token, said where also those can ask who know no GPU.

#include <cstddef>

namespace reprise::gpu {

inline constexpr std::size_t kMostLatent = 512;  // elements of a latent
inline constexpr std::size_t kMostStored = 640;  // with the turned part behind it

}  // namespace reprise::gpu
