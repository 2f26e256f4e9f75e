#pragma once
// The delta rule token after token, in f32, for rules of gpu/cuda/scan.cuh whose columns are those of a head's matrix; and
// sums over the heads of rows, a warp for each. Included by CUDA sources alone, with internal linkage.

#include "gpu/cuda/scan.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kHeadWarps = 4;  // of a block: a warp has a head of a row

/// S = decay S;  S += k (beta (v - k^T S));  o = q^T S, of a column: o in all of its lanes. q and k: [size];
/// decay_of(n): of number n.
template <int kNumbers, class DecayOf>
__device__ __forceinline__ float delta_step(const float* q, const float* k, const DecayOf& decay_of, int size,
                                            float v, float beta, int part, float (&s)[kNumbers]) {
  float recalled = 0.0F;
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const int n = scan_number(part, i);
    const float k_n = n < size ? __ldg(k + n) : 0.0F;
    s[i] *= n < size ? decay_of(n) : 0.0F;
    recalled = fmaf(k_n, s[i], recalled);
  }
  const float change = beta * (v - column_sum(recalled));
  float total = 0.0F;
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const int n = scan_number(part, i);
    const float k_n = n < size ? __ldg(k + n) : 0.0F;
    const float q_n = n < size ? __ldg(q + n) : 0.0F;
    s[i] = fmaf(k_n, change, s[i]);
    total = fmaf(q_n, s[i], total);
  }
  return column_sum(total);
}

/// sum(x^2) by a warp: each lane's elements are added upwards, then halves of the warp.
__device__ __forceinline__ float head_squares(const float* x, int size, int lane) {
  float squares = 0.0F;
  for (int i = lane; i < size; i += 32) squares = fmaf(x[i], x[i], squares);
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffU, squares, step);
  return squares;
}
/// 1 / sqrt(sum(x^2) + eps) by a warp.
__device__ __forceinline__ float unit_scale(const float* x, int size, float eps, int lane) {
  return 1.0F / sqrtf(head_squares(x, size, lane) + eps);
}
/// 1 / sqrt(mean(x^2) + eps) by a warp.
__device__ __forceinline__ float norm_scale(const float* x, int size, float eps, int lane) {
  return 1.0F / sqrtf(head_squares(x, size, lane) / static_cast<float>(size) + eps);
}

/// Of a launch with a warp for each head of each row.
inline unsigned blocks_of_heads(int heads, int rows) {
  return static_cast<unsigned>((rows * heads + kHeadWarps - 1) / kHeadWarps);
}

}  // namespace
}  // namespace reprise::gpu::cuda
