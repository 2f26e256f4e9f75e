#pragma once
// The rows of a prefilled tile on their way through the pages of their sequence, in ascending order with an online
// softmax. Included by CUDA sources alone, with internal linkage.
//
// kDim is the size of a head; for values it may be a strip of columns instead: columns do not know of each other.

#include "gpu/cuda/attention_tiles.cuh"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kKeyBlocks = kGrid / 8;  // blocks of 8 keys: columns of a C

/// The rows of a warp: a lane has part of rows g and g + 8, with lane = 4 * g + t.
template <int kDim>
struct RowsInProgress {
  float out[kDim / 8][4];  // C fragments, one for every 8 elements of the head
  float highest[2];        // score
  float weight[2];         // sum of the lane's own columns
};

/// s = q K^T: [16, 64] as 8 C fragments. `q` and `k` are the lane's addresses for ldmatrix.
template <int kDim>
__device__ __forceinline__ void score_page(float (&s)[kKeyBlocks][4], std::uint32_t q, std::uint32_t k) {
#pragma unroll
  for (auto& block : s) {
#pragma unroll
    for (float& value : block) value = 0;
  }
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {  // 16 elements of the head at a time
    std::uint32_t a[4];
    load_matrices(a, q + i * 16 * sizeof(Bf16));
#pragma unroll
    for (int pair = 0; pair < kKeyBlocks / 2; ++pair) {
      std::uint32_t b[4];  // b0, b1 of one block of 8 keys, then of the next
      load_matrices(b, k + (pair * 16 * tiles::kRowStride<kDim> + i * 16) * sizeof(Bf16));
      multiply_add(s[2 * pair], a, b[0], b[1]);
      multiply_add(s[2 * pair + 1], a, b[2], b[3]);
    }
  }
}

/// Keys after the row's own weigh nothing. `ahead` is how far the lane's row g stands, in the page of both,
/// ahead of its first key.
__device__ __forceinline__ void mask_later_keys(float (&s)[kKeyBlocks][4], int ahead) {
#pragma unroll
  for (int block = 0; block < kKeyBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // key 8 block + i % 2 from the first, row g + 8 (i / 2)
      if (block * 8 + i % 2 - i / 2 * 8 > ahead) s[block][i] = tiles::kMinusInfinity;
    }
  }
}

/// Keys before the row's window weigh nothing. `behind` is how far the first key of the window of the lane's row g stands
/// behind the lane's first key of the page.
__device__ __forceinline__ void mask_earlier_keys(float (&s)[kKeyBlocks][4], int behind) {
#pragma unroll
  for (int block = 0; block < kKeyBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (block * 8 + i % 2 - i / 2 * 8 < behind) s[block][i] = tiles::kMinusInfinity;
    }
  }
}

/// Scores become weights; what was summed before fades by `fade` (rows g, g + 8), of which the sum of weights has its part
/// here. kMayBeEmpty: all keys of the page may be masked, and all before it.
template <int kDim, bool kMayBeEmpty = false>
__device__ __forceinline__ void weigh_scores(RowsInProgress<kDim>& rows, float (&s)[kKeyBlocks][4],
                                             float scale, float (&fade)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // rows g, g + 8
    float highest = rows.highest[half];
#pragma unroll
    for (const auto& block : s) highest = fmaxf(highest, fmaxf(block[2 * half], block[2 * half + 1]));
    highest = tiles::highest_of_four(highest);
    const float kept = highest;
    if (kMayBeEmpty && highest == tiles::kMinusInfinity) highest = 0;  // infinity less infinity is no number
    fade[half] = tiles::power_of_two((rows.highest[half] - highest) * scale);
    rows.highest[half] = kept;
    float weight = rows.weight[half] * fade[half];
#pragma unroll
    for (auto& block : s) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        block[i] = tiles::power_of_two((block[i] - highest) * scale);
        weight += block[i];
      }
    }
    rows.weight[half] = weight;
  }
}

/// What was summed fades. All lanes of a warp call it; where no row of theirs has a new highest score there is nothing to do.
template <int kDim>
__device__ __forceinline__ void fade_rows(RowsInProgress<kDim>& rows, const float (&fade)[2]) {
  if (!__any_sync(0xffffffffU, fade[0] != 1.0F || fade[1] != 1.0F)) return;
#pragma unroll
  for (auto& block : rows.out) {
#pragma unroll
    for (int i = 0; i < 4; ++i) block[i] *= fade[i / 2];
  }
}

/// Both.
template <int kDim, bool kMayBeEmpty = false>
__device__ __forceinline__ void weigh_page(RowsInProgress<kDim>& rows, float (&s)[kKeyBlocks][4],
                                           float scale) {
  float fade[2];
  weigh_scores<kDim, kMayBeEmpty>(rows, s, scale, fade);
  fade_rows(rows, fade);
}

/// Nothing was looked at yet.
template <int kDim>
__device__ __forceinline__ void begin_rows(RowsInProgress<kDim>& rows) {
#pragma unroll
  for (auto& block : rows.out) {
#pragma unroll
    for (float& value : block) value = 0;
  }
  rows.highest[0] = rows.highest[1] = tiles::kMinusInfinity;
  rows.weight[0] = rows.weight[1] = 0;
}

/// Weights of 16 keys from 16 i on as the A of a product with values.
__device__ __forceinline__ void narrow_weights(std::uint32_t (&a)[4], const float (&p)[kKeyBlocks][4],
                                               int i) {
  a[0] = narrow(p[2 * i][0], p[2 * i][1]);
  a[1] = narrow(p[2 * i][2], p[2 * i][3]);
  a[2] = narrow(p[2 * i + 1][0], p[2 * i + 1][1]);
  a[3] = narrow(p[2 * i + 1][2], p[2 * i + 1][3]);
}

/// out += a V of 16 keys from 16 i on. `v` is the lane's address for ldmatrix, of the page's first.
template <int kDim>
__device__ __forceinline__ void add_values_of(RowsInProgress<kDim>& rows, const std::uint32_t (&a)[4], int i,
                                              std::uint32_t v) {
#pragma unroll
  for (int pair = 0; pair < kDim / 16; ++pair) {
    std::uint32_t b[4];  // b0, b1 of 8 elements of the head, then of the next 8
    load_transposed(b, v + (i * 16 * tiles::kRowStride<kDim> + pair * 16) * sizeof(Bf16));
    multiply_add(rows.out[2 * pair], a, b[0], b[1]);
    multiply_add(rows.out[2 * pair + 1], a, b[2], b[3]);
  }
}

/// out += p V. `v` is the lane's address for ldmatrix.
template <int kDim>
__device__ __forceinline__ void add_values(RowsInProgress<kDim>& rows, const float (&p)[kKeyBlocks][4],
                                           std::uint32_t v) {
#pragma unroll
  for (int i = 0; i < kGrid / 16; ++i) {  // 16 keys at a time
    std::uint32_t a[4];
    narrow_weights(a, p, i);
    add_values_of(rows, a, i, v);
  }
}

/// Divides by the sum of weights, applies the gate and writes the warp's rows, `count` of which exist. They
/// go through `tile`, the warp's own 16 rows of shared memory, so that memory is read and written in rows.
template <int kDim>
__device__ __forceinline__ void finish_rows(const RowsInProgress<kDim>& rows, Bf16* tile, int count,
                                            const Bf16* gate, std::size_t gate_stride, Bf16* out,
                                            std::size_t out_stride) {
  constexpr int kChunks = kDim / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();  // the warp has read its q from here
  if (gate != nullptr) {
    for (int chunk = lane; chunk < 16 * kChunks; chunk += 32) {
      const int row = chunk / kChunks;
      const int column = chunk % kChunks * 8;
      if (row >= count) break;
      *reinterpret_cast<uint4*>(tile + row * tiles::kRowStride<kDim> + column) =
          *reinterpret_cast<const uint4*>(gate + row * gate_stride + column);
    }
    __syncwarp();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float share = tiles::inverse(tiles::sum_of_four(rows.weight[half]));
    Bf16* row = tile + (lane / 4 + half * 8) * tiles::kRowStride<kDim> + lane % 4 * 2;
#pragma unroll
    for (int block = 0; block < kDim / 8; ++block) {
      auto* place = reinterpret_cast<std::uint32_t*>(row + block * 8);
      float first = rows.out[block][2 * half] * share;
      float second = rows.out[block][2 * half + 1] * share;
      if (gate != nullptr) {
        first *= tiles::sigmoid(tiles::first_of(*place));
        second *= tiles::sigmoid(tiles::second_of(*place));
      }
      *place = narrow(first, second);
    }
  }
  __syncwarp();
  for (int chunk = lane; chunk < 16 * kChunks; chunk += 32) {
    const int row = chunk / kChunks;
    const int column = chunk % kChunks * 8;
    if (row >= count) break;
    *reinterpret_cast<uint4*>(out + row * out_stride + column) =
        *reinterpret_cast<const uint4*>(tile + row * tiles::kRowStride<kDim> + column);
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
