#pragma once
// Pieces of the attention kernels: tiles in shared memory, fragments of tensor core products, softmax.
//
// A tile is [rows, kDim] of bf16 with rows kDim + 8 elements apart. That is an odd number of 16-byte chunks,
// so the eight rows of a matrix that ldmatrix reads lie in different banks.
//
// Products are m16n8k16. With lane = 4 * g + t, a lane holds
//   of A [16, 16]: a0 (g, 2t..), a1 (g + 8, 2t..), a2 (g, 2t + 8..), a3 (g + 8, 2t + 8..): two elements each
//   of B [16, 8]:  b0 (2t.., g), b1 (2t + 8.., g): two elements each
//   of C [16, 8]:  c0, c1 (g, 2t..), c2, c3 (g + 8, 2t..)
// The C of scores is therefore, rounded, the A of the product with values.

#include <cuda_bf16.h>

#include <cstdint>

#include "gpu/cuda/batch.h"

namespace reprise::gpu::cuda::tiles {

template <int kDim>
inline constexpr int kRowStride = kDim + 8;  // elements

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

/// 16 bytes into shared memory, in the background; zeros where not `present`.
__device__ __forceinline__ void copy_chunk(std::uint32_t to, const void* from, bool present) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(present ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void end_copy_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Until all but the last kPending groups of this thread have landed.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

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

/// Four matrices [8, 8] of bf16: lanes 8 i ... 8 i + 7 give the addresses of the rows of matrix i. A lane
/// gets elements (g, 2t) and (g, 2t + 1) of each.
__device__ __forceinline__ void load_matrices(std::uint32_t (&m)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
/// The same, of the transposed: elements (2t, g) and (2t + 1, g).
__device__ __forceinline__ void load_transposed(std::uint32_t (&m)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
/// Two matrices; the addresses of lanes 16 to 31 are not used.
__device__ __forceinline__ void load_two_matrices(std::uint32_t (&m)[2], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(m[0]), "=r"(m[1])
               : "r"(address)
               : "memory");
}

/// c += a b
__device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Rounded to nearest even; `first` at the lower address.
__device__ __forceinline__ std::uint32_t pack(float first, float second) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}
__device__ __forceinline__ float first_of(std::uint32_t both) {
  return __uint_as_float(both << 16);
}
__device__ __forceinline__ float second_of(std::uint32_t both) {
  return __uint_as_float(both & 0xffff0000U);
}
__device__ __forceinline__ Bf16 round_to_bf16(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ __forceinline__ float widen(Bf16 x) {
  return __uint_as_float(static_cast<std::uint32_t>(x) << 16);
}

inline constexpr float kLog2OfE = 1.4426950408889634F;

/// 2 to the power of x; 0 of minus infinity, 1 of 0.
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
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
