#pragma once
// What launches of kernels ask this thread's current GPU, how much shared memory a block may have, and kernels that begin
// before the one in front of them has ended. Included by CUDA sources alone.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/cuda/error.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

inline int gpu_attribute(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

inline int multiprocessor_count() {
  return gpu_attribute(cudaDevAttrMultiProcessorCount);
}

// Shared memory. GPUs differ: 99 KiB for compute capability 8.6, 8.9 and 12.0, 163 for 8.0, 227 for 9.0. Every kernel has a
// form that does with kLeastShared; larger ones are chosen where most_shared() allows them. Forms of a kernel have the same
// bits.

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

// Dependent launches. A kernel launched by launch_after() may start as soon as every block of the kernel in front has called
// let_next_begin(). It reads what other kernels of the stream have written, and writes anything at all, only after
// wait_for_earlier(), which returns when the kernel in front has ended and what it wrote can be seen. Before that it may
// read what does not change (weights) and what a kernel before the one in front has left (the state of a sequence).
//
// Every block calls wait_for_earlier() first and let_next_begin() after it: so a kernel's end means that all before it
// have ended, and the line above holds. Loads behind the wait are plain ones: not __ldg, no `const __restrict__`.
//
// Below compute capability 9.0, or CUDA 12.3, a kernel begins when the one in front has ended, and both calls do nothing.

__device__ __forceinline__ void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Of this thread's GPU: 90 for 9.0.
inline int compute_capability() {
  return 10 * gpu_attribute(cudaDevAttrComputeCapabilityMajor) +
         gpu_attribute(cudaDevAttrComputeCapabilityMinor);
}
/// Whether it has what such launches need, and blocks in clusters.
inline bool is_hopper_or_later() {
  return compute_capability() >= 90;
}

/// Whether kernels may begin early here: streams with such launches can be recorded from CUDA 12.3 on.
inline bool can_begin_early() {
  constexpr int kRecordable = 12030;
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  return CUDART_VERSION >= kRecordable && driver >= kRecordable && is_hopper_or_later();
}

struct LaunchShape {
  dim3 blocks;
  int threads;
  std::size_t shared_bytes = 0;
  int cluster = 1;  // blocks, along x
};

template <class... Parameters, class... Arguments>
void launch_after(void (*kernel)(Parameters...), const LaunchShape& shape, StreamHandle stream,
                  Arguments&&... arguments) {
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (can_begin_early()) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    attributes[count].val.clusterDim.y = 1;
    attributes[count++].val.clusterDim.z = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), "launching a kernel");
}

}  // namespace reprise::gpu::cuda
