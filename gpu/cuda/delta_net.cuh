#pragma once
// What the kernels of Gated DeltaNet share: sizes, the workspace of a prefill, and the instructions of the
// tensor cores in names. Included by CUDA sources alone, with internal linkage.
//
// Fragments of mma m16n8k16, for lane l with r = l / 4 and p = 2 (l % 4); a pair is two bf16 of one register:
//   A [16, 16]: a0 = (r, p..p+1), a1 = (r+8, p..p+1), a2 = (r, p+8..p+9), a3 = (r+8, p+8..p+9)
//   B [16, 8]:  b0 = (p..p+1, r), b1 = (p+8..p+9, r)
//   C [16, 8]:  c0, c1 = (r, p), (r, p+1);  c2, c3 = (r+8, p), (r+8, p+1), in f32

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/delta_net.h"

namespace reprise::gpu::cuda {
namespace {

constexpr float kUnitEps = 1e-6F;  // of the unit length of q and k
constexpr int kMostTaps = 4;
constexpr int kLargestGroup = 8;  // value heads of a key head
constexpr unsigned kWholeWarp = 0xffffffffU;

/// DeltaNetShape for kernels.
struct DeltaNetSizes {
  int key_heads;
  int value_heads;
  int group;  // value heads of a key head
  int key_dim;
  int value_dim;
  int taps;
  int channels;
  int value_size;
  std::size_t conv_offset;
  std::size_t state_offset;

  explicit DeltaNetSizes(const DeltaNetShape& shape)
      : key_heads(shape.key_heads),
        value_heads(shape.value_heads),
        group(shape.value_heads / shape.key_heads),
        key_dim(shape.key_dim),
        value_dim(shape.value_dim),
        taps(shape.taps),
        channels(shape.channels()),
        value_size(shape.value_size()),
        conv_offset(shape.conv_offset),
        state_offset(shape.state_offset) {}
};

/// The triangular matrices of a chunk and head, as A fragments of 16 x 16 blocks: for each of T high, T low,
/// P high, P low the blocks (0,0) (1,0) (1,1) (2,0) ... (3,3), each of 32 lanes with 16 bytes.
constexpr int kBlocks = 10;
constexpr int kBlockBytes = 512;
constexpr int kChunkMatrixBytes = 4 * kBlocks * kBlockBytes;

__device__ constexpr int block_index(int row_block, int column_block) {
  return row_block * (row_block + 1) / 2 + column_block;
}

/// Of a prefill, tile by tile. Rows beyond the end of a slice are zeros in all but `out`.
struct PrefillSpace {
  __nv_bfloat16* q;  // [tiles, key_heads, 64, key_dim]: unit length, times key_dim^-1/2
  __nv_bfloat16* k;  // as q: unit length
  __nv_bfloat16* v;  // [tiles, value_heads, 64, value_dim]
  float* g;          // [tiles, value_heads, 64]: logarithms of decays, then their sums from the chunk's start
  float* beta;       // [tiles, value_heads, 64]
  std::byte* matrices;  // [tiles, value_heads] of kChunkMatrixBytes
  float* out;           // [tiles, value_heads, 64, value_dim]: before the gated norm
};

__device__ inline float silu(float x) {
  return __fdividef(x, 1.0F + __expf(-x));
}
__device__ inline float log_decay(float a, float decay, float dt_bias) {
  const float x = a + dt_bias;
  return -decay * (x > 20.0F ? x : log1pf(expf(x)));
}
__device__ inline float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

/// The same bits in every lane.
__device__ inline float warp_sum(float x) {
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(kWholeWarp, x, distance);
  return x;
}

__device__ inline float2 widen(std::uint32_t pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000U)};
}
__device__ inline std::uint32_t narrow(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return static_cast<std::uint32_t>(__bfloat16_as_ushort(pair.x)) |
         static_cast<std::uint32_t>(__bfloat16_as_ushort(pair.y)) << 16;
}

/// Two f32 as sums of two bf16 each: 16 bits of them are kept.
struct SplitPair {
  std::uint32_t high;
  std::uint32_t low;
};
__device__ inline SplitPair split(float first, float second) {
  const std::uint32_t high = narrow(first, second);
  const float2 kept = widen(high);
  return {high, narrow(first - kept.x, second - kept.y)};
}

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
__device__ inline void copy16_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group 0;" ::: "memory");
}

/// Four 8 x 8 matrices of bf16; lanes 8 i ... 8 i + 7 give the addresses of the rows of matrix i.
__device__ inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_matrices_transposed(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

/// c += a b
__device__ inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace
}  // namespace reprise::gpu::cuda
