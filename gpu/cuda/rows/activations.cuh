#pragma once
// Row elements and activation functions shared by kernels. Rows are bf16 (Bf16) or f32 (float); kernels for
// both are templates on the element and compute in f32.

#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/rows/batch.h"
#include "gpu/cuda/rows/rows.h"

namespace reprise::gpu::cuda {

__device__ __forceinline__ float load_row(Bf16 element) {
  return widen(element);
}
__device__ __forceinline__ float load_row(float element) {
  return element;
}

/// Rounds to nearest even if `to` is bf16.
__device__ __forceinline__ void store_row(Bf16& to, float value) {
  to = narrow(value);
}
__device__ __forceinline__ void store_row(float& to, float value) {
  to = value;
}

__device__ __forceinline__ float sigmoid_of(float x) {
  return 1.0F / (1.0F + expf(-x));
}
__device__ __forceinline__ float silu_of(float x) {
  return x / (1.0F + expf(-x));
}
/// Approximate SiLU, more accurate than bf16: for results that become bf16.
__device__ __forceinline__ float quick_silu_of(float x) {
  return __fdividef(x, 1.0F + __expf(-x));
}
__device__ __forceinline__ float softplus_of(float x) {
  return x > 20.0F ? x : log1pf(expf(x));
}
/// The tanh form.
__device__ __forceinline__ float gelu_of(float x) {
  return 0.5F * x * (1.0F + tanhf(0.797884561F * (x + 0.044715F * x * x * x)));
}
/// 2^x; 0 for -infinity and where the result would be subnormal.
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Gated activation of bf16 rows.
__device__ __forceinline__ float gated_bf16(GateFunction act, float gate, float other) {
  return (act == GateFunction::kSilu ? quick_silu_of(gate) : gelu_of(gate)) * other;
}

}  // namespace reprise::gpu::cuda
