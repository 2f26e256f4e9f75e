#pragma once
// Elements of activation rows, which are bf16 (Bf16) or f32 (float): kernels that have both forms are templates on it, and
// compute in f32. Included by CUDA sources alone.

#include "gpu/cuda/batch.h"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda {

__device__ __forceinline__ float load_row(Bf16 element) {
  return widen(element);
}
__device__ __forceinline__ float load_row(float element) {
  return element;
}

/// Rounded to nearest even where the element is bf16.
__device__ __forceinline__ void store_row(Bf16& to, float value) {
  to = narrow(value);
}
__device__ __forceinline__ void store_row(float& to, float value) {
  to = value;
}

}  // namespace reprise::gpu::cuda
