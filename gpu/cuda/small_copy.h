#pragma once
// Few bytes from the host to the GPU, read by a kernel instead of the engine that copies: kernels behind it begin sooner,
// because they need not wait for another part of the GPU.
//
// Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

/// Up to so many; more are copied sooner by the engine.
inline constexpr std::size_t kMostSmallBytes = std::size_t{128} << 10;

/// `from` is pinned memory of the host, which stays as it is until the stream has passed here. Both are aligned to 16 bytes,
/// and memory of whole sixteens; `bytes` is at most kMostSmallBytes.
void copy_small_to_device(std::byte* to, const std::byte* from, std::size_t bytes, StreamHandle stream);

}  // namespace reprise::gpu::cuda
