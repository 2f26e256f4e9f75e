#pragma once
// Functions of one number that kernels share. Included by CUDA sources alone.

namespace reprise::gpu::cuda {

__device__ __forceinline__ float sigmoid_of(float x) {
  return 1.0F / (1.0F + expf(-x));
}
__device__ __forceinline__ float silu_of(float x) {
  return x / (1.0F + expf(-x));
}
__device__ __forceinline__ float softplus_of(float x) {
  return x > 20.0F ? x : log1pf(expf(x));
}
/// In its tanh form.
__device__ __forceinline__ float gelu_of(float x) {
  return 0.5F * x * (1.0F + tanhf(0.797884561F * (x + 0.044715F * x * x * x)));
}

}  // namespace reprise::gpu::cuda
