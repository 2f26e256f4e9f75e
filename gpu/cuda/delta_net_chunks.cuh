#pragma once
// The part of the chunked delta rule that needs no state, for each chunk of 64 tokens and value head at once.
// With G the running sum of g in the chunk and D_ij = exp(G_i - G_j):
//   L = strictly lower part of beta_i (k_i . k_j) D_ij
//   T = (I + L)^-1                               by forward substitution in f32
//   P = lower part, with the diagonal, of (q_i . k_j) D_ij
// T and P go into the workspace as A fragments (delta_net.cuh), G in place of g.
//
// What is masked is never put through exp: above the diagonal it may overflow.

#include "gpu/cuda/chunk_inverse.cuh"
#include "gpu/cuda/delta_net.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kMatrixThreads = 128;

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
