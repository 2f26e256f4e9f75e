#pragma once
// Pieces of the attention kernels: tiles in shared memory, softmax on fragments of products.
//
// A tile is [rows, kDim] of bf16 with rows kDim + 8 elements apart. That is an odd number of 16-byte chunks,
// so the eight rows of a matrix that ldmatrix reads lie in different banks.
//
// Fragments are as gpu/cuda/tensor_core.cuh says. The C of scores is therefore, rounded, the A of the product
// with values.

#include <cstdint>

#include "gpu/cuda/activations.cuh"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda::tiles {

using cuda::power_of_two;

template <int kDim>
inline constexpr int kRowStride = kDim + 8;  // elements

/// Rows of kDim elements, `stride` elements apart, into a tile of kRows rows, by kThreads threads. Rows from
/// `present` on become zeros, and are not read.
template <int kDim, int kRows, int kThreads>
__device__ __forceinline__ void copy_rows(std::uint32_t tile, const Bf16* from, std::size_t stride,
                                          int present) {
  constexpr int kChunks = kDim / 8;  // a row
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

/// 1 / x to a few bits of the last place, without the branch of a division; 0 of infinity.
__device__ __forceinline__ float inverse(float x) {
  return __fdividef(1.0F, x);
}
/// To about 1e-5 of itself, which is less than bf16 shows.
__device__ __forceinline__ float sigmoid(float x) {
  return inverse(1.0F + power_of_two(x * -kLog2OfE));
}

/// Over the four lanes that share the rows of a C: all of them get it.
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
