#pragma once
// Shared by the chunked recurrences (64 tokens): lower triangular [64, 64] matrices in 16 x 16 blocks, f32
// operands [64, columns] split into two bf16 for MMA, and the inverse of a unit triangular matrix.
//
// Blocks are in the order (0,0) (1,0) (1,1) (2,0) ... (3,3). Split operands are in shared memory, high rows
// before low rows, padded.

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kBlocks = 10;
constexpr int kBlockBytes = 512;  // an A fragment: 32 lanes with 16 bytes

__device__ constexpr int block_index(int row_block, int column_block) {
  return row_block * (row_block + 1) / 2 + column_block;
}

/// Two f32, each as the sum of two bf16, which keep 16 bits.
struct SplitPair {
  std::uint32_t high;
  std::uint32_t low;
};
__device__ inline SplitPair split(float first, float second) {
  const std::uint32_t high = narrow(first, second);
  const float2 kept = widen_pair(high);
  return {high, narrow(first - kept.x, second - kept.y)};
}

/// Stores two adjacent elements of a row to both halves of a split operand.
template <int kRow>
__device__ inline void store_split(std::byte* high, int low_offset, int row, int column, float first,
                                   float second) {
  const SplitPair pair = split(first, second);
  std::byte* to = high + row * kRow + column * 2;
  *reinterpret_cast<std::uint32_t*>(to) = pair.high;
  *reinterpret_cast<std::uint32_t*>(to + low_offset) = pair.low;
}

template <int kKeyDim>
// bytes; padded so that eight rows of 16 bytes hit every bank once
constexpr int kPaddedKeyRow = kKeyDim * 2 + 16;

/// dot[c] = rows 16 row_block ... + 15 of `rows` times rows 16 c ... + 15 of `keys`, for c <= row_block: two
/// C fragments each. Operands: [64, key_dim] in shared memory, padded rows.
template <int kKeyDim>
__device__ void multiply_lower(float (&dot)[4][2][4], std::uint32_t rows, std::uint32_t keys, int row_block,
                               int lane) {
  constexpr int kRow = kPaddedKeyRow<kKeyDim>;
  // A: lanes 0-15 rows 0-15 of elements 0-7, lanes 16-31 the same rows of elements 8-15.
  const std::uint32_t a_at = rows + (16 * row_block + (lane & 15)) * kRow + (lane >> 4) * 16;
  // B is keys^T: lanes 0-7 keys 0-7 of elements 0-7, 8-15 of elements 8-15; 16-31 keys 8-15 likewise.
  const std::uint32_t b_at = keys + ((lane & 7) + (lane >> 4) * 8) * kRow + ((lane >> 3) & 1) * 16;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
#pragma unroll
    for (int i = 0; i < 8; ++i) dot[c][i / 4][i % 4] = 0.0F;
  }
#pragma unroll
  for (int step = 0; step < kKeyDim / 16; ++step) {
    std::uint32_t a[4];
    load_matrices(a, a_at + step * 32);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (c > row_block) continue;
      std::uint32_t b[4];
      load_matrices(b, b_at + c * 16 * kRow + step * 32);
      multiply_add(dot[c][0], a, b[0], b[1]);
      multiply_add(dot[c][1], a, b[2], b[3]);
    }
  }
}

/// A lane's split A fragment.
struct SplitFragment {
  std::uint32_t high[4];
  std::uint32_t low[4];
};
/// values: a0, a1, a2, a3, two each.
__device__ inline SplitFragment split_fragment(const float (&values)[4][2]) {
  SplitFragment fragment;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const SplitPair pair = split(values[i][0], values[i][1]);
    fragment.high[i] = pair.high;
    fragment.low[i] = pair.low;
  }
  return fragment;
}
/// Stores the high part at `at` and the low part `low_offset` bytes later; 16 bytes of this lane each.
__device__ inline void store_fragment(std::byte* at, int low_offset, const SplitFragment& fragment) {
  *reinterpret_cast<uint4*>(at) = {fragment.high[0], fragment.high[1], fragment.high[2], fragment.high[3]};
  *reinterpret_cast<uint4*>(at + low_offset) = {fragment.low[0], fragment.low[1], fragment.low[2],
                                                fragment.low[3]};
}
__device__ inline SplitFragment load_fragment(const std::byte* at, int low_offset) {
  const uint4 h = *reinterpret_cast<const uint4*>(at);
  const uint4 l = *reinterpret_cast<const uint4*>(at + low_offset);
  return {{h.x, h.y, h.z, h.w}, {l.x, l.y, l.z, l.w}};
}

/// Stores a 16 x 16 block of matrix `which` as A fragments; a matrix has its high blocks, then its low ones.
/// values: as for split_fragment().
__device__ inline void store_block(std::byte* matrices, int which, int block, int lane,
                                   const float (&values)[4][2]) {
  store_fragment(matrices + (2 * which * kBlocks + block) * kBlockBytes + lane * 16, kBlocks * kBlockBytes,
                 split_fragment(values));
}

/// sum + small += a split 16 x 16 block times 16 rows of a split operand [64, columns]; `small` accumulates
/// the products with low parts. operand_at: the lane's ldmatrix.trans address for those rows.
template <int kRow, int kTiles>
__device__ inline void multiply_block(float (&sum)[kTiles][4], float (&small)[kTiles][4],
                                      const SplitFragment& block, std::uint32_t operand_at) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    std::uint32_t b[4];  // high b0, high b1, low b0, low b1
    load_transposed(b, operand_at + t * 16);
    multiply_add(sum[t], block.high, b[0], b[1]);
    multiply_add(small[t], block.high, b[2], b[3]);
    multiply_add(small[t], block.low, b[0], b[1]);
  }
}
template <int kTiles>
__device__ inline void add_fragments(float (&sum)[kTiles][4], const float (&small)[kTiles][4]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[t][i] += small[t][i];
  }
}

/// sum += the lower triangular blocks of row block row_block times a split operand [64, columns]. blocks: the
/// lane's part of high block (row_block, 0); low blocks follow kBlocks later. operand_at: the lane's
/// ldmatrix.trans address for rows 0-15.
template <int kRow, int kTiles>
__device__ inline void multiply_triangle(float (&sum)[kTiles][4], const std::byte* blocks, int row_block,
                                         std::uint32_t operand_at) {
  float small[kTiles][4] = {};
  for (int c = 0; c <= row_block; ++c) {
    multiply_block<kRow, kTiles>(sum, small, load_fragment(blocks + c * kBlockBytes, kBlocks * kBlockBytes),
                                 operand_at + c * 16 * kRow);
  }
  add_fragments(sum, small);
}

/// Returns the first tile of a slice, or -1. All threads of the block must call it.
template <int kThreads>
__device__ inline int find_first_tile(const Batch& batch, int slice) {
  __shared__ int found;
  if (threadIdx.x == 0) found = -1;
  __syncthreads();
  for (int t = static_cast<int>(threadIdx.x); t < batch.tile_count; t += kThreads) {
    if (batch.tiles[t].slice == slice && batch.tiles[t].first == 0) found = t;
  }
  __syncthreads();
  return found;
}

// T = (I + L)^-1 of a chunk, L strictly lower triangular, in f32: 16 x 16 diagonal blocks by forward
// substitution, then blocks below them by products. For adjacent diagonal blocks A and B with known inverses,
//   T_BA = -T_B (L_BA T_A)
// first with blocks of 16, then of 32.

constexpr int kLRow = 68;                // floats of a row of L^T in shared memory; 16-byte aligned
constexpr int kTRow = 72;                // floats of a row of T; 16-byte aligned
constexpr int kInverseThreads = 128;     // threads that do the work
constexpr int kProductFloats = 32 * 36;  // size of L_BA T_A

template <int kCount>
__device__ inline void load_some(float (&to)[kCount], const float* from) {
  static_assert(kCount == 2 || kCount == 4);
  if constexpr (kCount == 2) {
    const float2 two = *reinterpret_cast<const float2*>(from);
    to[0] = two.x;
    to[1] = two.y;
  } else {
    const float4 four = *reinterpret_cast<const float4*>(from);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  }
}

/// One thread: computes column `column` of the diagonal block of T at `first`.
__device__ inline void invert_block(const float* lower, float* inverse, int first, int column) {
  float x[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) x[i] = i == column ? 1.0F : 0.0F;
#pragma unroll
  for (int j = 0; j < 15; ++j) {
    const float* l = lower + (first + j) * kLRow + first;
#pragma unroll
    for (int i = (j + 1) / 4 * 4; i < 16; i += 4) {
      float four[4];
      load_some(four, l + i);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (i + k > j) x[i + k] = fmaf(-four[k], x[j], x[i + k]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) inverse[(first + i) * kTRow + first + column] = x[i];
}

/// Computes T_BA for blocks of kSize, A at row `first`, B after it, with kSize * kSize / 2 / kColumns threads
/// of two rows and kColumns columns each. All threads of the block must call it. product: kSize rows of kSize
/// + 4.
template <int kSize>
__device__ inline void join_inverses(const float* lower, float* inverse, float* product, int first,
                                     int thread, bool works) {
  constexpr int kColumns = kSize / 8;
  constexpr int kRow = kSize + 4;
  const int row = thread / 8 * 2;
  const int column = thread % 8 * kColumns;
  const int block = column / 16 * 16;  // T is zero above and beside it
  float x[2][kColumns] = {};
  if (works) {
    const float* l = lower + first * kLRow + first + kSize + row;
    const float* t = inverse + first * kTRow + first + column;
#pragma unroll 8
    for (int k = block; k < kSize; ++k) {
      float a[2];
      float b[kColumns];
      load_some(a, l + k * kLRow);
      load_some(b, t + k * kTRow);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        x[0][c] = fmaf(a[0], b[c], x[0][c]);
        x[1][c] = fmaf(a[1], b[c], x[1][c]);
      }
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      product[row * kRow + column + c] = x[0][c];
      product[(row + 1) * kRow + column + c] = x[1][c];
      x[0][c] = 0.0F;
      x[1][c] = 0.0F;
    }
  }
  __syncthreads();
  if (works) {
    const float* t = inverse + (first + kSize + row) * kTRow + first + kSize;
    const int end = row / 16 * 16 + 16;
#pragma unroll 2
    for (int k = 0; k < end; k += 4) {
      float a[2][4];
      load_some(a[0], t + k);
      load_some(a[1], t + kTRow + k);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float b[kColumns];
        load_some(b, product + (k + i) * kRow + column);
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          x[0][c] = fmaf(a[0][i], b[c], x[0][c]);
          x[1][c] = fmaf(a[1][i], b[c], x[1][c]);
        }
      }
    }
    float* to = inverse + (first + kSize + row) * kTRow + first + column;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      to[c] = -x[0][c];
      to[kTRow + c] = -x[1][c];
    }
  }
  __syncthreads();
}

/// Requires: called by all threads of the block, at least kInverseThreads; L^T is visible to all, as T is on
/// return. lower: L^T, [64] rows of kLRow; inverse: T, [64] rows of kTRow, blocks above the diagonal are not
/// written; product: kProductFloats; all aligned to 16 bytes.
__device__ inline void invert_chunk(const float* lower, float* inverse, float* product) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  if (thread < kInverseThreads && lane < 16) invert_block(lower, inverse, thread / 32 * 16, lane);
  __syncthreads();
  const int pair = thread / 64;
  join_inverses<16>(lower, inverse, product + pair * 16 * 20, pair * 32, thread % 64,
                    thread < kInverseThreads);
  join_inverses<32>(lower, inverse, product, 0, thread, thread < kInverseThreads);
}

}  // namespace
}  // namespace reprise::gpu::cuda
