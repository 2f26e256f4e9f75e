// Chunked delta rule of Kimi Delta Attention, for prefill.
//
// Computes: the delta rule with per-channel decays over chunks of 64 tokens in two kernels. MMA operands keep
// 16 bits (two bf16), accumulators are f32; the bits differ from the sequential rule.
//
// Chosen when: a batch with tiles, head_dim 16, 32, 64 or 128, and the caller did not request the sequential
// rule.
//
// Mapping: prepare_kda_chunks() computes what needs no state for all chunks in parallel, grid (head, tile).
// scan_kda_chunks() walks the chunks of a slice and carries the state, grid (strip of 16 or 32 value columns
// of a head, slice), 8 warps.
//
// Pipeline: operands that multiply the state or V' are stored in the workspace as split A fragments
// (chunk_triangles.cuh), which the scan loads directly into registers ahead of their use.
//
// Bits: chunks are anchored to the grid, and columns are independent, so the strip width does not matter.

#include "gpu/cuda/recurrence/kda.h"

#include <cstddef>
#include <type_traits>

#include "base/check.h"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/recurrence/chunk_triangles.cuh"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {
namespace {

/// Workspace of a chunk of a head. G: inclusive prefix sums of log decays in the chunk. Rows past the end of
/// a slice have zero keys and queries and add nothing to G.
template <int kDim>
struct KdaChunk {
  // k e^G and q e^G [64, head_dim]: blocks row-major; k high, k low, q high, q low of a block.
  static constexpr int kRecall = 0;
  // (k e^{G_63 - G})^T [head_dim, 64]: blocks row-major; high, low of a block.
  static constexpr int kDecayedKeys = kRecall + 4 * (kDim / 16) * 4 * kBlockBytes;
  // T high, T low, P high, P low.
  static constexpr int kMatrices = kDecayedKeys + kDim / 16 * 4 * 2 * kBlockBytes;
  static constexpr int kWhole = kMatrices + 4 * kBlocks * kBlockBytes;  // e^{G_63} [head_dim], f32
  static constexpr int kBytes = kWhole + kDim * 4;

  __device__ static constexpr int recall_at(int row_block, int step) {
    return kRecall + (row_block * (kDim / 16) + step) * 4 * kBlockBytes;
  }
  __device__ static constexpr int decayed_keys_at(int channel_block, int step) {
    return kDecayedKeys + (channel_block * 4 + step) * 2 * kBlockBytes;
  }
};

struct KdaSpace {
  int heads;
  std::byte* chunks;  // [tiles, heads] of KdaChunk
};

// prepare_kda_chunks(). With G [64, head_dim] the prefix sums of log decays in the chunk:
//   L_ij = beta_i sum_d k_id k_jd e^{G_id - G_jd}, j < i;  T = (I + L)^-1 in f32 (chunk_triangles.cuh)
//   P_ij = sum_d q_id k_jd e^{G_id - G_jd}, j <= i
// and the other fields of KdaChunk.
//
// No exponent is positive. A 16 x 16 block below the diagonal factors through the sums at its first row, G_f:
// (k_i e^{G_i - G_f}) . (k_j e^{G_f - G_j}), both split into two bf16 for MMA. Diagonal blocks are summed in
// f32, an element per thread. Channels are processed in slices, in ascending order. Warps 0 to 5 have a block
// below the diagonal each.

constexpr int kKdaThreads = 256;
constexpr int kKdaWarps = kKdaThreads / 32;
constexpr int kPairs = 120;  // elements j < i of a diagonal block
constexpr int kMaxPairs = (4 * kPairs + kKdaThreads - 1) / kKdaThreads;
constexpr int kDiagonalRow = 17;

/// Shared memory: a slice of channels of k, q and G [64, slice] f32; after all slices L^T, T and the scratch
/// buffer of the inverse.
template <int kDim>
struct KdaMemory {
  static constexpr int kSlice = kDim < 32 ? kDim : 32;
  static constexpr int kRow = kSlice + 4;
  static constexpr int kSliceFloats = 64 * kRow;
  static constexpr int kSolveFloats = 64 * kLRow + 64 * kTRow + kProductFloats;
  static constexpr int kFloats = 3 * kSliceFloats > kSolveFloats ? 3 * kSliceFloats : kSolveFloats;
};

/// Rows of a tile in the activations.
struct KdaRows {
  std::size_t first;
  int count;
};

/// Row and column of element e of a thread's A fragment (a0, a1, a2, a3, two each), which are also those of
/// its two C fragments of a block: four elements of the left half, four of the right half.
__device__ inline int fragment_row(int lane, int e) {
  return lane / 4 + e / 2 % 2 * 8;
}
__device__ inline int fragment_column(int lane, int e) {
  return 2 * (lane % 4) + e / 4 * 8 + e % 2;
}

/// Maps `index` to a pair (i, j), j < i, of a diagonal block: rows n and 16 - n have sixteen pairs together.
__device__ inline int2 pair_of(int index) {
  const int n = index / 16 + 1;
  const int remainder = index % 16;
  return remainder < n ? make_int2(n, remainder) : make_int2(16 - n, remainder - n);
}

template <int kDim>
__device__ inline void load_slice(const KdaPass& pass, const KdaRows& rows, int row_size, int column,
                                  float* memory) {
  using Memory = KdaMemory<kDim>;
  constexpr int kPieces = Memory::kSlice / 4;
  for (int i = static_cast<int>(threadIdx.x); i < 64 * kPieces; i += kKdaThreads) {
    const int row = i / kPieces;
    const int element = i % kPieces * 4;
    const int known = row < rows.count ? row : rows.count - 1;
    const std::size_t at = (rows.first + known) * row_size + column + element;
    const float4 nothing = {0.0F, 0.0F, 0.0F, 0.0F};
    float* to = memory + row * Memory::kRow + element;
    *reinterpret_cast<float4*>(to) =
        row < rows.count ? *reinterpret_cast<const float4*>(pass.k + at) : nothing;
    *reinterpret_cast<float4*>(to + Memory::kSliceFloats) =
        row < rows.count ? *reinterpret_cast<const float4*>(pass.q + at) : nothing;
    *reinterpret_cast<float4*>(to + 2 * Memory::kSliceFloats) =
        *reinterpret_cast<const float4*>(pass.decay + at);
  }
}

/// Stores a slice's recall and decay operands: steps (blocks of 16 channels) from first_step.
template <int kDim>
__device__ inline void write_operands(const float* memory, int first_step, std::byte* chunk) {
  using Memory = KdaMemory<kDim>;
  constexpr int kSteps = Memory::kSlice / 16;
  const float* k = memory;
  const float* q = k + Memory::kSliceFloats;
  const float* sums = q + Memory::kSliceFloats;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int unit = static_cast<int>(threadIdx.x) / 32; unit < 4 * kSteps; unit += kKdaWarps) {
    const int step = unit % kSteps;
    const int rows = unit / kSteps;  // block of 16 tokens
    float of_k[4][2];
    float of_q[4][2];
    float fading[4][2];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int at =
          (16 * rows + fragment_row(lane, e)) * Memory::kRow + 16 * step + fragment_column(lane, e);
      const float decay = expf(sums[at]);
      of_k[e / 2][e % 2] = k[at] * decay;
      of_q[e / 2][e % 2] = q[at] * decay;
      const int channel = 16 * step + fragment_row(lane, e);  // transposed
      const int token = (16 * rows + fragment_column(lane, e)) * Memory::kRow;
      fading[e / 2][e % 2] =
          k[token + channel] * expf(sums[63 * Memory::kRow + channel] - sums[token + channel]);
    }
    std::byte* recall = chunk + KdaChunk<kDim>::recall_at(rows, first_step + step) + lane * 16;
    store_fragment(recall, kBlockBytes, split_fragment(of_k));
    store_fragment(recall + 2 * kBlockBytes, kBlockBytes, split_fragment(of_q));
    store_fragment(chunk + KdaChunk<kDim>::decayed_keys_at(first_step + step, rows) + lane * 16, kBlockBytes,
                   split_fragment(fading));
  }
}

/// Adds a slice to a block below the diagonal of k k^T and q k^T; two C fragments each.
template <int kDim>
__device__ inline void multiply_slice(float (&of_k)[2][4], float (&of_q)[2][4], const float* memory,
                                      int row_block, int column_block) {
  using Memory = KdaMemory<kDim>;
  const float* k = memory;
  const float* q = k + Memory::kSliceFloats;
  const float* sums = q + Memory::kSliceFloats;
  const float* between = sums + 16 * row_block * Memory::kRow;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int step = 0; step < Memory::kSlice / 16; ++step) {
    float k_values[4][2];
    float q_values[4][2];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int channel = 16 * step + fragment_column(lane, e);
      const int at = (16 * row_block + fragment_row(lane, e)) * Memory::kRow + channel;
      const float decay = expf(sums[at] - between[channel]);
      k_values[e / 2][e % 2] = k[at] * decay;
      q_values[e / 2][e % 2] = q[at] * decay;
    }
    const SplitFragment a_k = split_fragment(k_values);
    const SplitFragment a_q = split_fragment(q_values);
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const float* key = k + (16 * column_block + 8 * side + lane / 4) * Memory::kRow;
      const float* of_key = key + 2 * Memory::kSliceFloats;
      float b[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int channel = 16 * step + 2 * (lane % 4) + e / 2 * 8 + e % 2;
        b[e] = key[channel] * expf(between[channel] - of_key[channel]);
      }
      const SplitPair b0 = split(b[0], b[1]);
      const SplitPair b1 = split(b[2], b[3]);
      multiply_add(of_k[side], a_k.high, b0.high, b1.high);
      multiply_add(of_q[side], a_q.high, b0.high, b1.high);
      multiply_add(of_k[side], a_k.high, b0.low, b1.low);
      multiply_add(of_q[side], a_q.high, b0.low, b1.low);
      multiply_add(of_k[side], a_k.low, b0.high, b1.high);
      multiply_add(of_q[side], a_q.low, b0.high, b1.high);
    }
  }
}

/// Adds a slice to one pair of rows j < i of k k^T and q k^T.
template <int kDim>
__device__ inline void add_pair(float& of_k, float& of_q, const float* memory, int i, int j) {
  using Memory = KdaMemory<kDim>;
  const float* k_i = memory + i * Memory::kRow;
  const float* k_j = memory + j * Memory::kRow;
#pragma unroll
  for (int c = 0; c < Memory::kSlice; c += 4) {
    const auto four = [&](const float* row, int which) {
      return *reinterpret_cast<const float4*>(row + which * Memory::kSliceFloats + c);
    };
    const float4 a = four(k_i, 0);
    const float4 q = four(k_i, 1);
    const float4 b = four(k_j, 0);
    const float4 to = four(k_i, 2);
    const float4 from = four(k_j, 2);
    const float key[4] = {b.x * expf(to.x - from.x), b.y * expf(to.y - from.y), b.z * expf(to.z - from.z),
                          b.w * expf(to.w - from.w)};
    of_k = fmaf(a.x, key[0], fmaf(a.y, key[1], fmaf(a.z, key[2], fmaf(a.w, key[3], of_k))));
    of_q = fmaf(q.x, key[0], fmaf(q.y, key[1], fmaf(q.z, key[2], fmaf(q.w, key[3], of_q))));
  }
}
/// Adds a slice to q . k of a row with itself, where the decay is 1.
template <int kDim>
__device__ inline void add_own(float& of_q, const float* memory, int i) {
  const float* k = memory + i * KdaMemory<kDim>::kRow;
#pragma unroll
  for (int c = 0; c < KdaMemory<kDim>::kSlice; ++c) {
    of_q = fmaf(k[KdaMemory<kDim>::kSliceFloats + c], k[c], of_q);
  }
}

/// Replaces the log decays of a channel by their prefix sums, one channel per thread, and stores the decay of
/// the whole chunk.
template <int kDim>
__device__ inline void sum_decays(const KdaPass& pass, const KdaRows& rows, int row_size, int column,
                                  std::byte* chunk) {
  const int channel = static_cast<int>(threadIdx.x);
  if (channel >= kDim) return;
  float* at = pass.decay + rows.first * row_size + column + channel;
  float sum = 0.0F;
  for (int first = 0; first < rows.count; first += 16) {
    float values[16];  // all loads first, so that they are in flight together
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

/// A thread's accumulators of L (without beta) and P: two C fragments of its warp's block below the diagonal,
/// some pairs j < i of diagonal blocks, and one row with itself.
template <int kDim>
struct KdaSums {
  float of_k[2][4] = {};
  float of_q[2][4] = {};
  float pairs_k[kMaxPairs] = {};
  float pairs_q[kMaxPairs] = {};
  float own = 0.0F;
  int warp, lane;
  int row_block, column_block;  // warps 0 to 5
  int own_row;                  // negative: none

  __device__ KdaSums()
      : warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        row_block(warp < 1   ? 1
                  : warp < 3 ? 2
                             : 3),
        column_block(warp - row_block * (row_block - 1) / 2),
        own_row(static_cast<int>(threadIdx.x) - (kKdaThreads - 64)) {}

  template <class Use>
  __device__ void for_pairs(const Use& use) const {
#pragma unroll
    for (int n = 0; n < kMaxPairs; ++n) {
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

  /// Writes L^T to `lower`, P to `diagonal` (64 rows of kDiagonalRow) and, below the diagonal, to `matrices`.
  __device__ void store(const float* betas, float* lower, float* diagonal, std::byte* matrices) const {
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

/// Stores the diagonal blocks of P and all of T as A fragments.
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
__global__ void __launch_bounds__(kKdaThreads) prepare_kda_chunks(KdaSpace space, Batch batch, KdaPass pass) {
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
    __syncthreads();  // G is ready, and the previous slice has been read
    load_slice<kDim>(pass, rows, row_size, head * kDim + first, memory);
    __syncthreads();
    write_operands<kDim>(memory, first / 16, chunk);
    sums.add(memory);
  }
  __syncthreads();  // the slices have been read
  float* const lower = memory;
  float* const inverse = memory + 64 * kLRow;
  std::byte* const matrices = chunk + KdaChunk<kDim>::kMatrices;
  sums.store(betas, lower, diagonal, matrices);
  __syncthreads();
  invert_chunk(lower, inverse, inverse + 64 * kTRow);
  store_matrices(matrices, diagonal, inverse);
}

// scan_kda_chunks(). With S the f32 state of a head and X, R, V', O of 64 rows, on a strip of value columns:
//   X = (k e^G) S;  R = beta (V - X);  V' = T R
//   O = (q e^G) S + P V';  S = diag(e^{G_63}) S + (k e^{G_63 - G})^T V'
// All operands are split into two bf16; the product of both low parts is omitted.
//
// Warp w has 16 rows (row_block) and half of the columns of X, R, V' and O, and rows 16 w ... 16 w + 15 of S
// as C fragments in registers. Right operands are in shared memory.

constexpr int kKdaScanThreads = 256;

/// Shared memory: split operands, high rows before low rows: S [head_dim, columns], R and V' [64, columns].
template <int kDim, int kColumns>
struct KdaScanMemory {
  static constexpr int kRow = kColumns * 2 + 16;
  static constexpr int kS = 0;
  static constexpr int kR = kS + 2 * kDim * kRow;
  static constexpr int kNew = kR + 128 * kRow;
  static constexpr int kBytes = kNew + 128 * kRow;
};

/// A thread's view of its block's strip, and the steps of a chunk.
template <int kDim, int kColumns>
struct KdaStrip {
  using Memory = KdaScanMemory<kDim, kColumns>;
  using Chunk = KdaChunk<kDim>;
  static constexpr int kRow = Memory::kRow;
  static constexpr int kSteps = kDim / 16;
  static constexpr int kTiles = kColumns / 16;
  static constexpr int kAhead = kSteps < 2 ? kSteps : 2;
  using State = float[kColumns / 8][4];
  using Part = float[kTiles][4];  // fragments of X, V' or O

  /// Operands of a block of 16 channels.
  struct Keys {
    SplitFragment k;
    SplitFragment q;
  };
  struct Inputs {
    float2 v[kTiles][2];
    float beta[2];
  };

  const KdaSpace& space;
  const KdaPass& pass;
  BatchSlice slice;
  int head;
  int first_column;
  std::byte* memory;
  std::uint32_t memory_at;
  int warp, lane;
  int r, p;       // in a C fragment: rows r and r + 8, columns p and p + 1
  int row_block;  // warps w and w + 4 share a scheduler and together have 5 blocks of T and P
  int row;
  int column;

  __device__ KdaStrip(const KdaSpace& in_space, const KdaPass& in_pass, const BatchSlice& of,
                      std::byte* shared)
      : space(in_space),
        pass(in_pass),
        slice(of),
        memory(shared),
        memory_at(shared_address(shared)),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32) {
    constexpr int kStrips = kDim / kColumns;
    head = static_cast<int>(blockIdx.x) / kStrips;
    first_column = static_cast<int>(blockIdx.x) % kStrips * kColumns;
    r = lane / 4;
    p = 2 * (lane % 4);
    row_block = warp < 4 ? warp : 7 - warp;
    row = 16 * row_block + r;
    column = warp / 4 * kTiles * 8;
  }

  __device__ const std::byte* chunk_at(std::size_t tile) const {
    return space.chunks + (tile * space.heads + head) * Chunk::kBytes;
  }
  __device__ bool has_state() const { return warp < kSteps; }
  __device__ std::size_t state_at() const {  // fragment t: + 8 t columns; second half: + 8 rows
    return (static_cast<std::size_t>(head) * kDim + 16 * warp + r) * kDim + first_column + p;
  }
  /// Returns this lane's ldmatrix.trans address for the first 16 rows of a split operand with `rows` rows.
  __device__ std::uint32_t operand_at(int at, int rows) const {
    return memory_at + at + ((lane & 15) + (lane >> 4) * rows) * kRow;
  }

  __device__ void read_keys(Keys& keys, const std::byte* chunk, int step) const {
    const std::byte* from = chunk + Chunk::recall_at(row_block, step) + lane * 16;
    keys.k = load_fragment(from, kBlockBytes);
    keys.q = load_fragment(from + 2 * kBlockBytes, kBlockBytes);
  }
  __device__ void read_first_keys(Keys (&keys)[kAhead], const std::byte* chunk) const {
#pragma unroll
    for (int step = 0; step < kAhead; ++step) read_keys(keys[step], chunk, step);
  }
  /// Loads this row block of T (0) or P (1).
  __device__ void read_triangle(SplitFragment (&blocks)[4], const std::byte* chunk, int which) const {
    const std::byte* from = chunk + Chunk::kMatrices +
                            (2 * which * kBlocks + block_index(row_block, 0)) * kBlockBytes + lane * 16;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (c <= row_block) blocks[c] = load_fragment(from + c * kBlockBytes, kBlocks * kBlockBytes);
    }
  }
  __device__ void read_decayed_keys(SplitFragment (&decayed_keys)[4], float (&whole)[2],
                                    const std::byte* chunk) const {
    if (!has_state()) return;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      decayed_keys[step] = load_fragment(chunk + Chunk::decayed_keys_at(warp, step) + lane * 16, kBlockBytes);
    }
    const float* decays = reinterpret_cast<const float*>(chunk + Chunk::kWhole) + 16 * warp + r;
    whole[0] = decays[0];
    whole[1] = decays[8];
  }
  __device__ void read_inputs(Inputs& in, int chunk) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = 64 * chunk + row + 8 * half;
      const auto at = static_cast<std::size_t>(slice.first_row + t);
      const float* v = pass.v + (at * space.heads + head) * kDim + first_column + column + p;
      in.beta[half] = t < slice.rows ? pass.beta[at * pass.beta_stride + head] : 0.0F;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        in.v[i][half] =
            t < slice.rows ? *reinterpret_cast<const float2*>(v + 8 * i) : make_float2(0.0F, 0.0F);
      }
    }
  }

  __device__ void read_state(State& s, std::size_t state_offset) const {
    if (!has_state()) return;
    const float* from = reinterpret_cast<const float*>(slice.slot + state_offset) + state_at();
#pragma unroll
    for (int t = 0; t < kColumns / 8; ++t) {
      const float2 upper = *reinterpret_cast<const float2*>(from + 8 * t);
      const float2 lower = *reinterpret_cast<const float2*>(from + 8 * kDim + 8 * t);
      s[t][0] = upper.x;
      s[t][1] = upper.y;
      s[t][2] = lower.x;
      s[t][3] = lower.y;
    }
  }
  __device__ void store_state(const State& s, std::byte* slot, std::size_t state_offset) const {
    if (!has_state()) return;
    float* to = reinterpret_cast<float*>(slot + state_offset) + state_at();
#pragma unroll
    for (int t = 0; t < kColumns / 8; ++t) {
      *reinterpret_cast<float2*>(to + 8 * t) = {s[t][0], s[t][1]};
      *reinterpret_cast<float2*>(to + 8 * kDim + 8 * t) = {s[t][2], s[t][3]};
    }
  }
  /// Stores the state, split, to shared memory for recall().
  __device__ void publish_state(const State& s) const {
    if (!has_state()) return;
#pragma unroll
    for (int t = 0; t < kColumns / 8; ++t) {
      store_split<kRow>(memory + Memory::kS, kDim * kRow, 16 * warp + r, 8 * t + p, s[t][0], s[t][1]);
      store_split<kRow>(memory + Memory::kS, kDim * kRow, 16 * warp + r + 8, 8 * t + p, s[t][2], s[t][3]);
    }
  }
  /// Stores this thread's elements of R or V', split, for the next MMA.
  __device__ void publish_part(int at, const Part& part) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      store_split<kRow>(memory + at, 64 * kRow, row, column + 8 * t + p, part[t][0], part[t][1]);
      store_split<kRow>(memory + at, 64 * kRow, row + 8, column + 8 * t + p, part[t][2], part[t][3]);
    }
  }

  /// x = (k e^G) S; o = (q e^G) S. `keys` holds the first steps.
  __device__ void recall(Part& x, Part& o, Keys (&keys)[kAhead], const std::byte* chunk) const {
    const std::uint32_t s_at = operand_at(Memory::kS, kDim) + column * 2;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      Keys& now = keys[step % kAhead];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        std::uint32_t b[4];
        load_transposed(b, s_at + step * 16 * kRow + t * 16);
        multiply_add(x[t], now.k.high, b[0], b[1]);
        multiply_add(o[t], now.q.high, b[0], b[1]);
        multiply_add(x[t], now.k.high, b[2], b[3]);
        multiply_add(o[t], now.q.high, b[2], b[3]);
        multiply_add(x[t], now.k.low, b[0], b[1]);
        multiply_add(o[t], now.q.low, b[0], b[1]);
      }
      if (step + kAhead < kSteps) read_keys(now, chunk, step + kAhead);
    }
  }

  /// x = beta (V - x), which is R.
  __device__ void correct(Part& x, const Inputs& in) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        x[t][2 * half] = in.beta[half] * (in.v[t][half].x - x[t][2 * half]);
        x[t][2 * half + 1] = in.beta[half] * (in.v[t][half].y - x[t][2 * half + 1]);
      }
    }
  }

  /// sum += row block of T or P times R or V'.
  __device__ void multiply_rows(Part& sum, const SplitFragment (&blocks)[4], int at) const {
    float small[kTiles][4] = {};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (c > row_block) continue;
      multiply_block<kRow, kTiles>(sum, small, blocks[c], operand_at(at, 64) + column * 2 + c * 16 * kRow);
    }
    add_fragments(sum, small);
  }

  __device__ void write_outputs(const Part& o, int chunk) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = 64 * chunk + row + 8 * half;
      if (t >= slice.rows) continue;
      float* to = pass.out + (static_cast<std::size_t>(slice.first_row + t) * space.heads + head) * kDim +
                  first_column + column + p;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        *reinterpret_cast<float2*>(to + 8 * i) = {o[i][2 * half], o[i][2 * half + 1]};
      }
    }
  }

  /// S = diag(e^{G_63}) S + (k e^{G_63 - G})^T V'
  __device__ void renew(State& s, const SplitFragment (&decayed_keys)[4], const float (&whole)[2]) const {
    if (!has_state()) return;
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) s[i / 4][i % 4] *= whole[i / 2 % 2];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int t = 0; t < kColumns / 8; ++t) {
        std::uint32_t b[4];
        load_transposed(b, operand_at(Memory::kNew, 64) + step * 16 * kRow + t * 16);
        multiply_add(s[t], decayed_keys[step].high, b[0], b[1]);
        multiply_add(s[t], decayed_keys[step].high, b[2], b[3]);
        multiply_add(s[t], decayed_keys[step].low, b[0], b[1]);
      }
    }
  }
};

/// Grid: head_dim / kColumns strips per head, slices.
template <int kDim, int kColumns>
__global__ void __launch_bounds__(kKdaScanThreads, 2)
    scan_kda_chunks(KdaSpace space, std::size_t state_offset, Batch batch, KdaPass pass) {
  using Strip = KdaStrip<kDim, kColumns>;
  using Memory = typename Strip::Memory;
  extern __shared__ __align__(16) std::byte kda_memory[];
  const int first_tile = find_first_tile<kKdaScanThreads>(batch, static_cast<int>(blockIdx.y));
  if (first_tile < 0) return;
  const Strip strip(space, pass, batch.slices[blockIdx.y], kda_memory);
  const int chunks = (strip.slice.rows + 63) / 64;

  typename Strip::Keys keys[Strip::kAhead];
  typename Strip::Inputs in;
  typename Strip::State s = {};
  const std::byte* chunk = strip.chunk_at(first_tile);
  strip.read_first_keys(keys, chunk);
  strip.read_inputs(in, 0);
  strip.read_state(s, state_offset);
  strip.publish_state(s);
  for (int done = 0; done < chunks; ++done) {
    std::byte* const exported = export_after_tile(pass.exports, first_tile + done);
    __syncthreads();  // S is ready
    typename Strip::Part x = {};
    typename Strip::Part o = {};
    strip.recall(x, o, keys, chunk);
    SplitFragment blocks[4];
    strip.read_triangle(blocks, chunk, 0);
    strip.correct(x, in);
    strip.publish_part(Memory::kR, x);
    __syncthreads();  // R is ready, S has been read
    typename Strip::Part change = {};
    strip.multiply_rows(change, blocks, Memory::kR);
    strip.read_triangle(blocks, chunk, 1);
    strip.publish_part(Memory::kNew, change);
    __syncthreads();  // V' is ready
    strip.multiply_rows(o, blocks, Memory::kNew);
    strip.write_outputs(o, done);
    SplitFragment decayed_keys[4];
    float whole[2] = {};
    strip.read_decayed_keys(decayed_keys, whole, chunk);
    strip.renew(s, decayed_keys, whole);
    if (exported != nullptr) strip.store_state(s, exported, state_offset);
    if (done + 1 < chunks) {
      chunk = strip.chunk_at(first_tile + done + 1);
      strip.read_first_keys(keys, chunk);
      strip.read_inputs(in, done + 1);
    }
    strip.publish_state(s);
  }
  strip.store_state(s, strip.slice.slot, state_offset);
}

constexpr int kFewKdaStrips = 66;  // blocks of the scan: half of an H200's SMs

template <class Run>
auto with_head_dim(int head_dim, const Run& run) {
  switch (head_dim) {
    case 16:
      return run(std::integral_constant<int, 16>());
    case 32:
      return run(std::integral_constant<int, 32>());
    case 64:
      return run(std::integral_constant<int, 64>());
    default:
      return run(std::integral_constant<int, 128>());
  }
}

template <int kDim, int kColumns>
void launch_kda_strips(const KdaSpace& space, const KdaShape& shape, const Batch& batch, const KdaPass& pass,
                       StreamHandle stream) {
  constexpr int kBytes = KdaScanMemory<kDim, kColumns>::kBytes;
  static_assert(kBytes <= 48 * 1024, "more than 48 KiB of shared memory needs a raised limit");
  const dim3 grid(kDim / kColumns * shape.heads, batch.slice_count);
  scan_kda_chunks<kDim, kColumns>
      <<<grid, kKdaScanThreads, kBytes, stream>>>(space, shape.state_offset, batch, pass);
  check_launch("scan_kda_chunks");
}

template <int kDim>
void launch_kda_chunks(const KdaShape& shape, const Batch& batch, const KdaPass& pass, StreamHandle stream) {
  const KdaSpace space{.heads = shape.heads, .chunks = pass.workspace};
  const dim3 grid(shape.heads, batch.tile_count);
  prepare_kda_chunks<kDim><<<grid, kKdaThreads, 0, stream>>>(space, batch, pass);
  check_launch("prepare_kda_chunks");
  if constexpr (kDim >= 32) {
    // Narrow strips have the same bits and give more blocks.
    if (kDim / 32 * shape.heads * batch.slice_count > kFewKdaStrips) {
      launch_kda_strips<kDim, 32>(space, shape, batch, pass, stream);
      return;
    }
  }
  launch_kda_strips<kDim, 16>(space, shape, batch, pass, stream);
}

}  // namespace

bool can_use_kda_chunks(const KdaShape& shape) {
  const int dim = shape.head_dim;
  return (dim == 16 || dim == 32 || dim == 64 || dim == 128) && shape.state_offset % 16 == 0;
}

std::size_t kda_chunks_workspace(const KdaShape& shape, int tiles) {
  const std::size_t chunks = static_cast<std::size_t>(tiles) * static_cast<std::size_t>(shape.heads);
  return chunks * with_head_dim(shape.head_dim,
                                [](auto dim) { return std::size_t{KdaChunk<decltype(dim)::value>::kBytes}; });
}

void kda_in_chunks(const KdaShape& shape, const Batch& batch, const KdaPass& pass, StreamHandle stream) {
  REPRISE_CHECK(can_use_kda_chunks(shape), "the chunked delta rule has no kernel for this shape");
  with_head_dim(shape.head_dim,
                [&](auto dim) { launch_kda_chunks<decltype(dim)::value>(shape, batch, pass, stream); });
}

}  // namespace reprise::gpu::cuda
