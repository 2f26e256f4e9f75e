#include "gpu/cuda/small_copy.h"

#include <cstdint>

#include "base/check.h"
#include "gpu/cuda/error.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kCopyThreads = 256;

__global__ void __launch_bounds__(kCopyThreads) copy_sixteens(uint4* to, const uint4* from, int count) {
  const int i = static_cast<int>(blockIdx.x * kCopyThreads + threadIdx.x);
  if (i < count) to[i] = from[i];
}

}  // namespace

void copy_small_to_device(std::byte* to, const std::byte* from, std::size_t bytes, StreamHandle stream) {
  const auto is_aligned = [](const void* place) { return reinterpret_cast<std::uintptr_t>(place) % 16 == 0; };
  REPRISE_CHECK(bytes <= kMostSmallBytes && is_aligned(to) && is_aligned(from),
                "the copy is too large for a small copy, or not aligned to 16 bytes");
  if (bytes == 0) return;
  const auto count = static_cast<int>((bytes + 15) / 16);
  copy_sixteens<<<static_cast<unsigned>((count + kCopyThreads - 1) / kCopyThreads), kCopyThreads, 0,
                  stream>>>(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from), count);
  check_launch("small copy");
}

}  // namespace reprise::gpu::cuda
