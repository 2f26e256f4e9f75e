#pragma once
// A slice of the channels of a chunk in Kimi Delta Attention, in shared memory, and what it adds to the sums over all of
// them. gpu/cuda/channel_delta_chunks.cuh, for which this is, says what is computed. Included by CUDA sources alone, with
// internal linkage.

#include "gpu/cuda/channel_delta.cuh"
#include "gpu/cuda/chunk_inverse.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kKdaThreads = 256;
constexpr int kKdaWarps = kKdaThreads / 32;
constexpr int kPairs = 120;                                               // of a block on the diagonal, j < i
constexpr int kMostPairs = (4 * kPairs + kKdaThreads - 1) / kKdaThreads;  // of a thread
constexpr int kDiagonalRow = 17;                                          // floats

/// Shared memory: a slice of channels of k, q and G [64, slice] f32, and after all slices L^T, T and what T is made by.
template <int kDim>
struct KdaMemory {
  static constexpr int kSlice = kDim < 32 ? kDim : 32;
  static constexpr int kRow = kSlice + 4;  // floats: eight rows of 16 bytes hit every bank once
  static constexpr int kSliceFloats = 64 * kRow;
  static constexpr int kSolveFloats = 64 * kLRow + 64 * kTRow + kProductFloats;
  static constexpr int kFloats = 3 * kSliceFloats > kSolveFloats ? 3 * kSliceFloats : kSolveFloats;
};

/// Rows of a tile in the activations.
struct KdaRows {
  std::size_t first;
  int count;
};

/// Element e of a thread's A fragment: a0, a1, a2, a3 have two each. Those of C fragments stand alike: four of the left
/// half of a block, four of its right half.
__device__ inline int fragment_row(int lane, int e) {
  return lane / 4 + e / 2 % 2 * 8;
}
__device__ inline int fragment_column(int lane, int e) {
  return 2 * (lane % 4) + e / 4 * 8 + e % 2;
}

/// Element `index` of the pairs j < i of a block on the diagonal: rows n and 16 - n have sixteen together.
__device__ inline int2 pair_of(int index) {
  const int n = index / 16 + 1;
  const int place = index % 16;
  return place < n ? make_int2(n, place) : make_int2(16 - n, place - n);
}

/// k, q and G of a slice into shared memory.
template <int kDim>
__device__ inline void load_slice(const ChannelDeltaPass& pass, const KdaRows& rows, int row_size, int column,
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

/// What meets the state, of a slice: steps (blocks of 16 channels) from first_step on.
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
    const int rows = unit / kSteps;  // a block of 16 tokens
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
    store_fragment(chunk + KdaChunk<kDim>::fade_at(first_step + step, rows) + lane * 16, kBlockBytes,
                   split_fragment(fading));
  }
}

/// Adds a slice to a block below the diagonal, of keys with keys and of queries with keys. Two C fragments each.
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

/// Adds a slice to the sums of one pair of rows j < i, of keys with keys and of queries with keys.
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
/// The same of a row with itself, where nothing fades.
template <int kDim>
__device__ inline void add_own(float& of_q, const float* memory, int i) {
  const float* k = memory + i * KdaMemory<kDim>::kRow;
#pragma unroll
  for (int c = 0; c < KdaMemory<kDim>::kSlice; ++c) {
    of_q = fmaf(k[KdaMemory<kDim>::kSliceFloats + c], k[c], of_q);
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
