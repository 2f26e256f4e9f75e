#pragma once
// How much shared memory a block may have. Included by CUDA sources alone.
//
// GPUs differ: 99 KiB for compute capability 8.6, 8.9 and 12.0, 163 for 8.0, 227 for 9.0. Every kernel has a form that does
// with kLeastShared; larger ones are chosen where most_shared() allows them. Forms of a kernel have the same bits.
//
// Threading: about this thread's current GPU.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "gpu/cuda/error.h"
#include "gpu/cuda/gpu_attribute.h"

namespace reprise::gpu::cuda {

inline constexpr int kLeastShared = 99 * 1024;

/// What REPRISE_GPU_SHARED_KB in the environment allows, in bytes: so kernels for small GPUs are tried on a large one. Throws
/// std::invalid_argument where it makes no sense.
inline int wanted_shared() {
  constexpr int kAny = 1 << 20;  // KiB: more than any GPU has
  const char* given = std::getenv("REPRISE_GPU_SHARED_KB");
  if (given == nullptr) return kAny * 1024;
  char* end = nullptr;
  const long kilobytes = std::strtol(given, &end, 10);
  if (*given == '\0' || *end != '\0' || kilobytes < kLeastShared / 1024 || kilobytes > kAny) {
    throw std::invalid_argument("REPRISE_GPU_SHARED_KB is '" + std::string(given) +
                                "'; it takes a number of KiB, 99 or more");
  }
  return static_cast<int>(kilobytes) * 1024;
}

/// Bytes.
inline int most_shared() {
  static const int wanted = wanted_shared();
  return std::min(gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin), wanted);
}

/// Must come before a launch with so many bytes.
template <class Kernel>
void allow_shared(Kernel kernel, int bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory of a kernel");
}

}  // namespace reprise::gpu::cuda
