#pragma once
// What the runtime says of this thread's current GPU.

#include <cuda_runtime.h>

#include "gpu/cuda/error.h"

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

}  // namespace reprise::gpu::cuda
