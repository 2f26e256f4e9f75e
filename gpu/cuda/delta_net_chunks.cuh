#pragma once
// The part of the chunked delta rule that needs no state, for each chunk of 64 tokens and value head at once.
// With G the running sum of g in the chunk and D_ij = exp(G_i - G_j):
//   L = strictly lower part of beta_i (k_i . k_j) D_ij
//   T = (I + L)^-1                               by forward substitution in f32
//   P = lower part, with the diagonal, of (q_i . k_j) D_ij
// T and P go into the workspace as A fragments (delta_net.cuh), G in place of g.
//
// What is masked is never put through exp: above the diagonal it may overflow.

#include "gpu/cuda/delta_net.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kMatrixThreads = 128;
constexpr int kLRow = 68;  // floats of a row of L^T in shared memory; 16 bytes aligned
constexpr int kTRow = 72;  // floats of a row of T; rows four apart fall on other banks

template <int kKeyDim>
constexpr int kPaddedKeyRow = kKeyDim * 2 + 16;  // bytes: eight rows of 16 bytes hit every bank once

/// dot[c] = rows 16 row_block ... of `rows` times rows 16 c ... of `keys`, for c <= row_block: two C
/// fragments each. Both [64, key_dim] in shared memory with padded rows.
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

/// Column `column` of T, by one thread, which alone reads and writes that column.
/// lower: L^T, [64] rows of kLRow; inverse: T, [64] rows of kTRow. Blocks of 16 rows above the first block of
/// 32 columns are not written.
__device__ void solve_column(const float* lower, float* inverse, int column) {
  const int first_block = column / 32 * 2;  // the same for a warp
  for (int block = first_block; block < 4; ++block) {
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) x[i] = block * 16 + i == column ? 1.0F : 0.0F;
    for (int j = first_block * 16; j < block * 16; ++j) {
      const float known = inverse[j * kTRow + column];
      const float4* l = reinterpret_cast<const float4*>(lower + j * kLRow + block * 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4 four = l[i];
        x[4 * i] = fmaf(-four.x, known, x[4 * i]);
        x[4 * i + 1] = fmaf(-four.y, known, x[4 * i + 1]);
        x[4 * i + 2] = fmaf(-four.z, known, x[4 * i + 2]);
        x[4 * i + 3] = fmaf(-four.w, known, x[4 * i + 3]);
      }
    }
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const float* l = lower + (block * 16 + j) * kLRow + block * 16;
#pragma unroll
      for (int i = j + 1; i < 16; ++i) x[i] = fmaf(-l[i], x[j], x[i]);
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) inverse[(block * 16 + i) * kTRow + column] = x[i];
  }
}

/// Writes a 16 x 16 block as A fragments. values: a0, a1, a2, a3 of this lane, two each.
__device__ inline void store_block(std::byte* matrices, int which, int block, int lane,
                                   const float (&values)[4][2]) {
  uint4 high;
  uint4 low;
  const SplitPair a0 = split(values[0][0], values[0][1]);
  const SplitPair a1 = split(values[1][0], values[1][1]);
  const SplitPair a2 = split(values[2][0], values[2][1]);
  const SplitPair a3 = split(values[3][0], values[3][1]);
  high = {a0.high, a1.high, a2.high, a3.high};
  low = {a0.low, a1.low, a2.low, a3.low};
  std::byte* to = matrices + (2 * which * kBlocks + block) * kBlockBytes + lane * 16;
  *reinterpret_cast<uint4*>(to) = high;
  *reinterpret_cast<uint4*>(to + kBlocks * kBlockBytes) = low;
}

/// Grid: value heads, tiles.
template <int kKeyDim>
__global__ void __launch_bounds__(kMatrixThreads) chunk_matrices(DeltaNetSizes sizes, PrefillSpace space) {
  constexpr int kRow = kPaddedKeyRow<kKeyDim>;
  constexpr int kKeysBytes = 64 * kRow;
  constexpr int kLBytes = 64 * kLRow * 4;
  constexpr int kSolveBytes = kLBytes + 64 * kTRow * 4;
  // K and Q first, then L^T and T.
  __shared__ __align__(16) std::byte memory[2 * kKeysBytes > kSolveBytes ? 2 * kKeysBytes : kSolveBytes];
  __shared__ float sums[64];
  __shared__ float betas[64];

  const int head = static_cast<int>(blockIdx.x);
  const std::size_t tile = blockIdx.y;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const std::size_t keys_at = (tile * sizes.key_heads + head / sizes.group) * 64 * kKeyDim;
  const std::size_t chunk = tile * sizes.value_heads + head;

  const std::uint32_t k_at = shared_address(memory);
  const std::uint32_t q_at = k_at + kKeysBytes;
  constexpr int kPieces = kKeyDim / 8;  // 16 bytes each, in a row
  for (int i = thread; i < 64 * kPieces; i += kMatrixThreads) {
    const int to = i / kPieces * kRow + i % kPieces * 16;
    copy_chunk(k_at + to, space.k + keys_at + i * 8);
    copy_chunk(q_at + to, space.q + keys_at + i * 8);
  }
  end_copy_group();
  if (thread < 64) {
    sums[thread] = space.g[chunk * 64 + thread];
    betas[thread] = space.beta[chunk * 64 + thread];
  }
  __syncthreads();
  if (thread == 0) {
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      sum += sums[i];
      sums[i] = sum;
    }
  }
  wait_for_copies<0>();
  __syncthreads();
  if (thread < 64) space.g[chunk * 64 + thread] = sums[thread];

  std::byte* matrices = space.matrices + chunk * kChunkMatrixBytes;
  const int r = lane / 4;
  const int p = 2 * (lane % 4);
  {
    const int row_block = 3 - warp;  // for P; that of L is the other way round, so that warps are even
    float dot[4][2][4];
    multiply_lower<kKeyDim>(dot, q_at, k_at, row_block, lane);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (c > row_block) continue;
      float values[4][2];
#pragma unroll
      for (int e = 0; e < 8; ++e) {  // a0, a1, a2, a3 are c0-1 and c2-3 of the left half, then of the right
        const int i = 16 * row_block + r + e / 2 % 2 * 8;
        const int j = 16 * c + p + e / 4 * 8 + e % 2;
        values[e / 2][e % 2] = j <= i ? dot[c][e / 4][e % 4] * expf(sums[i] - sums[j]) : 0.0F;
      }
      store_block(matrices, 1, block_index(row_block, c), lane, values);
    }
  }

  float dot[4][2][4];
  multiply_lower<kKeyDim>(dot, k_at, k_at, warp, lane);
  __syncthreads();  // K and Q are no longer needed
  auto* lower = reinterpret_cast<float*>(memory);
  auto* inverse = reinterpret_cast<float*>(memory + kLBytes);
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (c > warp) continue;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int i = 16 * warp + r + e / 2 % 2 * 8;
      const int j = 16 * c + p + e / 4 * 8 + e % 2;
      lower[j * kLRow + i] = j < i ? betas[i] * dot[c][e / 4][e % 4] * expf(sums[i] - sums[j]) : 0.0F;
    }
  }
  __syncthreads();
  if (thread < 64) solve_column(lower, inverse, thread);
  __syncthreads();
  for (int row_block = 0; row_block < 4; ++row_block) {
    for (int c = 0; c <= row_block; ++c) {
      const int block = block_index(row_block, c);
      if (block % 4 != warp) continue;
      float values[4][2];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int i = 16 * row_block + r + e / 2 % 2 * 8;
        const int j = 16 * c + p + e / 4 * 8 + e % 2;
        values[e / 2][e % 2] = inverse[i * kTRow + j];
      }
      store_block(matrices, 0, block, lane, values);
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
