#pragma once
// An element of a row of activations, which are bf16, or f32 in a model that is computed precisely. Included by CUDA sources
// alone.

#include "gpu/cuda/batch.h"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda {

__device__ __forceinline__ float load_row(Bf16 element) {
  return widen(element);
}
__device__ __forceinline__ float load_row(float element) {
  return element;
}
__device__ __forceinline__ void store_row(Bf16& to, float value) {
  to = narrow(value);
}
__device__ __forceinline__ void store_row(float& to, float value) {
  to = value;
}

}  // namespace reprise::gpu::cuda
