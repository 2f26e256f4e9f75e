#pragma once
// The part of the chunked delta rule that needs no state, for each chunk of 64 tokens and value head at once.
// With G the running sum of g in the chunk and D_ij = exp(G_i - G_j):
//   L = strictly lower part of beta_i (k_i . k_j) D_ij
//   T = (I + L)^-1                               in f32 (chunk_inverse.cuh)
//   P = lower part, with the diagonal, of (q_i . k_j) D_ij
// T and P go into the workspace as A fragments (delta_net.cuh), and so does G. Blocks of threads have one of T and P.
//
// What is masked is never put through exp: above the diagonal it may overflow.

#include "gpu/cuda/chunk_inverse.cuh"
#include "gpu/cuda/delta_net.cuh"
#include "gpu/cuda/dependent_launch.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kMatrixThreads = 256;

/// G of a chunk by a warp: a lane has two neighbours. Row after row: then the difference of two neighbours is off by a single
/// rounding, as it must be where decays are strong.
__device__ inline float2 sum_decays_of(float2 g, int lane) {
  float2 own = {0.0F, 0.0F};
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    sum += __shfl_sync(kWholeWarp, g.x, i);
    if (i == lane) own.x = sum;
    sum += __shfl_sync(kWholeWarp, g.y, i);
    if (i == lane) own.y = sum;
  }
  return own;
}

/// Rows of two operands times each other in blocks of 16 x 16 at and below the diagonal, of which a warp has up to two beside
/// each other: use(column_block, values) with values as for store_block(). Two of the warps have none.
template <int kKeyDim, class Use>
__device__ inline void multiply_two_blocks(std::uint32_t rows, std::uint32_t keys, int row_block,
                                           int column_block, int lane, const Use& use) {
  constexpr int kRow = kPaddedKeyRow<kKeyDim>;
  // A: lanes 0-15 rows 0-15 of elements 0-7, lanes 16-31 the same rows of elements 8-15.
  const std::uint32_t a_at = rows + (16 * row_block + (lane & 15)) * kRow + (lane >> 4) * 16;
  // B is keys^T: lanes 0-7 keys 0-7 of elements 0-7, 8-15 of elements 8-15; 16-31 keys 8-15 likewise.
  const std::uint32_t b_at =
      keys + (16 * column_block + (lane & 7) + (lane >> 4) * 8) * kRow + ((lane >> 3) & 1) * 16;
  float dot[2][2][4] = {};
#pragma unroll
  for (int step = 0; step < kKeyDim / 16; ++step) {
    std::uint32_t a[4];
    load_matrices(a, a_at + step * 32);
#pragma unroll
    for (int c = 0; c < 2; ++c) {  // the second may be above the diagonal: nobody looks at it
      std::uint32_t b[4];
      load_matrices(b, b_at + c * 16 * kRow + step * 32);
      multiply_add(dot[c][0], a, b[0], b[1]);
      multiply_add(dot[c][1], a, b[2], b[3]);
    }
  }
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    if (column_block + c > row_block) continue;
    float values[4][2];
#pragma unroll
    for (int e = 0; e < 8; ++e) values[e / 2][e % 2] = dot[c][e / 4][e % 4];
    use(column_block + c, values);
  }
}

/// Grid: value heads, tiles, T and P.
template <int kKeyDim>
__global__ void __launch_bounds__(kMatrixThreads) chunk_matrices(DeltaNetSizes sizes, PrefillSpace space) {
  constexpr int kRow = kPaddedKeyRow<kKeyDim>;
  constexpr int kLBytes = 64 * kLRow * 4;
  constexpr int kSolveBytes = (64 * kTRow + kProductFloats) * 4;
  static_assert(64 * kRow <= kLBytes && 64 * kRow <= kSolveBytes);
  // Q or, for T, L^T; then K and, once L is there, T.
  __shared__ __align__(16) std::byte memory[kLBytes + kSolveBytes];
  __shared__ float sums[64];
  __shared__ float betas[64];

  const int head = static_cast<int>(blockIdx.x);
  const std::size_t tile = blockIdx.y;
  const bool for_p = blockIdx.z != 0;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const std::size_t keys_at = (tile * sizes.key_heads + head / sizes.group) * 64 * kKeyDim;
  const std::size_t chunk = tile * sizes.value_heads + head;

  wait_for_earlier();
  let_next_begin();
  const std::uint32_t q_at = shared_address(memory);
  const std::uint32_t k_at = q_at + kLBytes;
  constexpr int kPieces = kKeyDim / 8;  // 16 bytes each, in a row
#pragma unroll
  for (int i = thread; i < 64 * kPieces; i += kMatrixThreads) {
    const int to = i / kPieces * kRow + i % kPieces * 16;
    copy_chunk(k_at + to, space.k + keys_at + i * 8);
    if (for_p) copy_chunk(q_at + to, space.q + keys_at + i * 8);
  }
  end_copy_group();
  if (warp == 0) {
    const std::size_t at = chunk * 64 + 2 * lane;
    const float2 sum = sum_decays_of(*reinterpret_cast<const float2*>(space.g + at), lane);
    *reinterpret_cast<float2*>(sums + 2 * lane) = sum;
    if (!for_p) *reinterpret_cast<float2*>(space.sums + at) = sum;
  } else if (warp == 1) {
    *reinterpret_cast<float2*>(betas + 2 * lane) =
        *reinterpret_cast<const float2*>(space.beta + chunk * 64 + 2 * lane);
  }
  wait_for_copies<0>();
  __syncthreads();

  std::byte* matrices = space.matrices + chunk * kChunkMatrixBytes;
  const int r = lane / 4;
  const int p = 2 * (lane % 4);
  // Element e of `values`: a0, a1, a2, a3 have two each.
  const auto row_of = [&](int row_block, int e) { return 16 * row_block + r + e / 2 % 2 * 8; };
  const auto column_of = [&](int column_block, int e) { return 16 * column_block + p + e / 4 * 8 + e % 2; };
  // Of warps 0 to 5: rows of the blocks 0, 1, 2, 2, 3, 3.
  const int row_block = warp < 2 ? warp : warp / 2 + 1;
  const int column_block = warp < 2 ? 0 : warp % 2 * 2;
  if (for_p) {
    if (warp >= 6) return;
    multiply_two_blocks<kKeyDim>(q_at, k_at, row_block, column_block, lane, [&](int c, float(&values)[4][2]) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int i = row_of(row_block, e);
        const int j = column_of(c, e);
        values[e / 2][e % 2] = j <= i ? values[e / 2][e % 2] * expf(sums[i] - sums[j]) : 0.0F;
      }
      store_block(matrices, 1, block_index(row_block, c), lane, values);
    });
    return;
  }

  auto* lower = reinterpret_cast<float*>(memory);
  auto* inverse = reinterpret_cast<float*>(memory + kLBytes);
  if (warp < 6) {
    multiply_two_blocks<kKeyDim>(k_at, k_at, row_block, column_block, lane, [&](int c, float(&values)[4][2]) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int i = row_of(row_block, e);
        const int j = column_of(c, e);
        lower[j * kLRow + i] = j < i ? betas[i] * values[e / 2][e % 2] * expf(sums[i] - sums[j]) : 0.0F;
      }
    });
  }
  __syncthreads();  // L is there, and K no longer needed
  invert_chunk(lower, inverse, inverse + 64 * kTRow);
  for (int block = warp; block < kBlocks; block += kMatrixThreads / 32) {
    const int rows = block < 1 ? 0 : block < 3 ? 1 : block < 6 ? 2 : 3;
    const int columns = block - block_index(rows, 0);
    float values[4][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two =
          *reinterpret_cast<const float2*>(inverse + row_of(rows, 2 * i) * kTRow + column_of(columns, 2 * i));
      values[i][0] = two.x;
      values[i][1] = two.y;
    }
    store_block(matrices, 0, block, lane, values);
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
