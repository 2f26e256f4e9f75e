#pragma once
// Launch helpers: attributes of the current GPU, the shared memory limit, and programmatic dependent launch
// (PDL).

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/stream.h"

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

// Shared memory per block is 99 KiB on compute capability 8.6, 8.9 and 12.0, 163 on 8.0, 227 on 9.0. Every
// kernel has a variant that needs at most kMinShared; larger variants, bitwise identical, are used where
// max_shared() allows them.

inline constexpr int kMinShared = 99 * 1024;

/// Returns the limit set by REPRISE_GPU_SHARED_KB, in bytes, with which a large GPU runs the variants for
/// small ones. Throws std::invalid_argument for a bad value.
inline int wanted_shared() {
  constexpr int kAny = 1 << 20;  // KiB: no limit
  const char* given = std::getenv("REPRISE_GPU_SHARED_KB");
  if (given == nullptr) return kAny * 1024;
  char* end = nullptr;
  const long kilobytes = std::strtol(given, &end, 10);
  if (*given == '\0' || *end != '\0' || kilobytes < kMinShared / 1024 || kilobytes > kAny) {
    throw std::invalid_argument("REPRISE_GPU_SHARED_KB is '" + std::string(given) +
                                "'; it takes a number of KiB, 99 or more");
  }
  return static_cast<int>(kilobytes) * 1024;
}

/// Max bytes of shared memory per block.
inline int max_shared() {
  static const int wanted = wanted_shared();
  return std::min(gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin), wanted);
}

/// Must precede a launch with `bytes` of dynamic shared memory.
template <class Kernel>
void allow_shared(Kernel kernel, int bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory of a kernel");
}

// PDL. A kernel launched by launch_after() may start when every block of the previous kernel has called
// pdl_launch_dependents(). pdl_wait() returns when the previous kernel has ended and its writes are visible.
// Before it, a kernel writes nothing and reads only constant data (weights) and data written by kernels
// before the previous one (the state of a sequence).
//
// Every block calls pdl_wait() before pdl_launch_dependents(). So when a kernel ends, all kernels before it
// have ended, which makes the second kind of read safe. Loads after the wait must be plain: no __ldg, no
// `const __restrict__`.
//
// Below compute capability 9.0 or CUDA 12.3 a kernel starts when the previous one has ended, and both calls
// do nothing.

__device__ __forceinline__ void pdl_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void pdl_launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// 90 for compute capability 9.0.
inline int compute_capability() {
  return 10 * gpu_attribute(cudaDevAttrComputeCapabilityMajor) +
         gpu_attribute(cudaDevAttrComputeCapabilityMinor);
}
/// Returns whether the GPU supports PDL and clusters.
inline bool is_hopper_or_later() {
  return compute_capability() >= 90;
}

/// Returns whether PDL is used: from CUDA 12.3 on, which can capture such launches in graphs.
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
  int cluster = 1;  // blocks per cluster, along x
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
