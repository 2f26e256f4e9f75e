#pragma once
// The part of Kimi Delta Attention in chunks that needs no state, for each chunk of 64 tokens and head at once. With G
// [64, head_dim] the sums of the logarithms of decays from the chunk's start:
//   L_ij = beta_i sum_d k_id k_jd e^{G_id - G_jd}, j < i;  T = (I + L)^-1 in f32 (chunk_inverse.cuh)
//   P_ij = sum_d q_id k_jd e^{G_id - G_jd}, j <= i
// and what KdaChunk has beside them.
//
// No exponent is positive. A block of 16 x 16 below the diagonal takes the sums at the first row of its rows, G_f, between
// its two factors, (k_i e^{G_i - G_f}) . (k_j e^{G_f - G_j}), both split in two bf16 for the tensor cores; blocks on the
// diagonal are summed in f32, each element by a thread. Channels come in slices, upwards.
//
// Eight warps. Warps 0 to 5 have a block below the diagonal each.

#include "gpu/cuda/channel_delta_slices.cuh"

namespace reprise::gpu::cuda {
namespace {

/// A thread sums the logarithms of a channel, in place, and leaves the decay of the whole chunk.
template <int kDim>
__device__ inline void sum_decays(const ChannelDeltaPass& pass, const KdaRows& rows, int row_size, int column,
                                  std::byte* chunk) {
  const int channel = static_cast<int>(threadIdx.x);
  if (channel >= kDim) return;
  float* at = pass.decay + rows.first * row_size + column + channel;
  float sum = 0.0F;
  for (int first = 0; first < rows.count; first += 16) {
    float values[16];  // all loads first, so that they are under way together
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      values[i] = first + i < rows.count ? at[static_cast<std::size_t>(first + i) * row_size] : 0.0F;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      sum += values[i];
      if (first + i < rows.count) at[static_cast<std::size_t>(first + i) * row_size] = sum;
    }
  }
  reinterpret_cast<float*>(chunk + KdaChunk<kDim>::kWhole)[channel] = expf(sum);
}

/// What a thread has of L (without beta) and P while slices are added up: of a block below the diagonal two C fragments,
/// where its warp has one; of blocks on the diagonal some pairs j < i; a row with itself.
template <int kDim>
struct KdaSums {
  float of_k[2][4] = {};
  float of_q[2][4] = {};
  float pairs_k[kMostPairs] = {};
  float pairs_q[kMostPairs] = {};
  float own = 0.0F;
  int warp, lane;
  int row_block, column_block;  // of warps 0 to 5
  int own_row;                  // negative: none

  __device__ KdaSums()
      : warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        row_block(warp < 1   ? 1
                  : warp < 3 ? 2
                             : 3),
        column_block(warp - row_block * (row_block - 1) / 2),
        own_row(static_cast<int>(threadIdx.x) - (kKdaThreads - 64)) {}

  /// use(n, i, j) for all pairs of this thread.
  template <class Use>
  __device__ void for_pairs(const Use& use) const {
#pragma unroll
    for (int n = 0; n < kMostPairs; ++n) {
      const int item = static_cast<int>(threadIdx.x) + n * kKdaThreads;
      if (item >= 4 * kPairs) continue;
      const int2 pair = pair_of(item % kPairs);
      const int first_row = item / kPairs * 16;
      use(n, first_row + pair.x, first_row + pair.y);
    }
  }

  __device__ void add(const float* slice) {
    if (warp < 6) multiply_slice<kDim>(of_k, of_q, slice, row_block, column_block);
    for_pairs([&](int n, int i, int j) { add_pair<kDim>(pairs_k[n], pairs_q[n], slice, i, j); });
    if (own_row >= 0) add_own<kDim>(own, slice, own_row);
  }

  /// L^T to `lower`, P to `diagonal` (64 rows of kDiagonalRow) and, below the diagonal, to `matrices`.
  __device__ void place(const float* betas, float* lower, float* diagonal, std::byte* matrices) const {
    if (warp < 6) {
      float values[4][2];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int i = 16 * row_block + fragment_row(lane, e);
        lower[(16 * column_block + fragment_column(lane, e)) * kLRow + i] = betas[i] * of_k[e / 4][e % 4];
        values[e / 2][e % 2] = of_q[e / 4][e % 4];
      }
      store_block(matrices, 1, block_index(row_block, column_block), lane, values);
    }
    for_pairs([&](int n, int i, int j) {
      lower[j * kLRow + i] = betas[i] * pairs_k[n];
      diagonal[i * kDiagonalRow + j % 16] = pairs_q[n];
    });
    if (own_row >= 0) diagonal[own_row * kDiagonalRow + own_row % 16] = own;
  }
};

/// P and T of which `diagonal` [4, 16] rows of kDiagonalRow and `inverse` are there, as A fragments.
__device__ inline void store_matrices(std::byte* matrices, const float* diagonal, const float* inverse) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float values[4][2];
  if (warp < 4) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int i = fragment_row(lane, e);
      const int j = fragment_column(lane, e);
      values[e / 2][e % 2] = j <= i ? diagonal[(16 * warp + i) * kDiagonalRow + j] : 0.0F;
    }
    store_block(matrices, 1, block_index(warp, warp), lane, values);
  }
  for (int row_block = 0; row_block < 4; ++row_block) {
    for (int c = 0; c <= row_block; ++c) {
      const int block = block_index(row_block, c);
      if (block % kKdaWarps != warp) continue;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        values[e / 2][e % 2] =
            inverse[(16 * row_block + fragment_row(lane, e)) * kTRow + 16 * c + fragment_column(lane, e)];
      }
      store_block(matrices, 0, block, lane, values);
    }
  }
}

/// Grid: heads, tiles.
template <int kDim>
__global__ void __launch_bounds__(kKdaThreads)
    prepare_kda_chunks(KdaSpace space, Batch batch, ChannelDeltaPass pass) {
  using Memory = KdaMemory<kDim>;
  __shared__ __align__(16) float memory[Memory::kFloats];
  __shared__ float diagonal[64 * kDiagonalRow];
  __shared__ float betas[64];
  const int head = static_cast<int>(blockIdx.x);
  const BatchTile tile = batch.tiles[blockIdx.y];
  const BatchSlice slice = batch.slices[tile.slice];
  const KdaRows rows{static_cast<std::size_t>(slice.first_row + tile.first),
                     min(64, slice.rows - tile.first)};
  const int row_size = space.heads * kDim;
  std::byte* const chunk =
      space.chunks + (static_cast<std::size_t>(blockIdx.y) * space.heads + head) * KdaChunk<kDim>::kBytes;
  const int thread = static_cast<int>(threadIdx.x);

  if (thread < 64) {
    betas[thread] = thread < rows.count ? pass.beta[(rows.first + thread) * pass.beta_stride + head] : 0.0F;
  }
  sum_decays<kDim>(pass, rows, row_size, head * kDim, chunk);
  KdaSums<kDim> sums;
  for (int first = 0; first < kDim; first += Memory::kSlice) {
    __syncthreads();  // G is there, and nobody reads the slice before any more
    load_slice<kDim>(pass, rows, row_size, head * kDim + first, memory);
    __syncthreads();
    write_operands<kDim>(memory, first / 16, chunk);
    sums.add(memory);
  }
  __syncthreads();  // the slices are no longer needed
  float* const lower = memory;
  float* const inverse = memory + 64 * kLRow;
  std::byte* const matrices = chunk + KdaChunk<kDim>::kMatrices;
  sums.place(betas, lower, diagonal, matrices);
  __syncthreads();
  invert_chunk(lower, inverse, inverse + 64 * kTRow);
  store_matrices(matrices, diagonal, inverse);
}

}  // namespace
}  // namespace reprise::gpu::cuda
