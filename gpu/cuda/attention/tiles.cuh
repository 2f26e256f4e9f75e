#pragma once
// Shared memory tiles and softmax helpers of the attention kernels. A tile is bf16 [rows, kDim] with a row
// pitch of kDim + 8 elements: an odd number of 16-byte units, so that the eight rows of an ldmatrix are in
// different banks. Fragments are those of gemm/tensor_core.cuh; the rounded C fragments of the scores are the
// A fragments of the product with V.

#include <cstdint>

#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda::tiles {

using cuda::power_of_two;

template <int kDim>
inline constexpr int kRowStride = kDim + 8;

/// Starts the copy of rows of kDim elements, `stride` elements apart, to a tile of kRows rows, with kThreads
/// threads. Rows from `present` on become zero and are not read.
template <int kDim, int kRows, int kThreads>
__device__ __forceinline__ void copy_rows(std::uint32_t tile, const Bf16* from, std::size_t stride,
                                          int present) {
  constexpr int kChunks = kDim / 8;
  constexpr int kAll = kRows * kChunks;
#pragma unroll
  for (int i = 0; i < (kAll + kThreads - 1) / kThreads; ++i) {
    const int chunk = i * kThreads + static_cast<int>(threadIdx.x);
    if (kAll % kThreads != 0 && chunk >= kAll) break;
    const int row = chunk / kChunks;
    const int column = chunk % kChunks * 8;
    copy_chunk(tile + (row * kRowStride<kDim> + column) * sizeof(Bf16), from + row * stride + column,
               row < present);
  }
}

__device__ __forceinline__ float first_of(std::uint32_t both) {
  return __uint_as_float(both << 16);
}
__device__ __forceinline__ float second_of(std::uint32_t both) {
  return __uint_as_float(both & 0xffff0000U);
}
inline constexpr float kLog2OfE = 1.4426950408889634F;

/// 1 / x within a few ulp, without the branch of a division; 0 for infinity.
__device__ __forceinline__ float inverse(float x) {
  return __fdividef(1.0F, x);
}
/// Relative error about 1e-5, below the resolution of bf16.
__device__ __forceinline__ float sigmoid(float x) {
  return inverse(1.0F + power_of_two(x * -kLog2OfE));
}

/// Reductions over the four lanes that share the rows of a C fragment; all get the result.
__device__ __forceinline__ float highest_of_four(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}
__device__ __forceinline__ float sum_of_four(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

inline constexpr float kMinusInfinity = -__builtin_huge_valf();

}  // namespace reprise::gpu::cuda::tiles
