#pragma once
// Online softmax over the pages of a sequence in ascending order, for the 16 rows of a warp. kDim is the head
// size; for values it may be a strip of columns, because columns are independent.

#include "gpu/cuda/attention/tiles.cuh"
#include "gpu/cuda/gemm/tensor_core.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kKeyBlocks = kGrid / 8;  // blocks of 8 keys: columns of C

/// Attention state of a warp's rows. Lane 4 * g + t has parts of rows g and g + 8.
template <int kDim>
struct RowsInProgress {
  float out[kDim / 8][4];  // unnormalized: one C fragment per 8 elements of the head
  float highest[2];        // max score
  float denominator[2];    // partial: of the lane's columns
};

/// s = q K^T: [16, 64] in 8 C fragments. `q` and `k` are the lane's ldmatrix addresses.
template <int kDim>
__device__ __forceinline__ void score_page(float (&s)[kKeyBlocks][4], std::uint32_t q, std::uint32_t k) {
#pragma unroll
  for (auto& block : s) {
#pragma unroll
    for (float& value : block) value = 0;
  }
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    std::uint32_t a[4];
    load_matrices(a, q + i * 16 * sizeof(Bf16));
#pragma unroll
    for (int pair = 0; pair < kKeyBlocks / 2; ++pair) {
      std::uint32_t b[4];  // b0, b1 of 8 keys, then of the next 8
      load_matrices(b, k + (pair * 16 * tiles::kRowStride<kDim> + i * 16) * sizeof(Bf16));
      multiply_add(s[2 * pair], a, b[0], b[1]);
      multiply_add(s[2 * pair + 1], a, b[2], b[3]);
    }
  }
}

/// Causal mask within the page of the row itself. `ahead`: row g minus the lane's first key.
__device__ __forceinline__ void mask_later_keys(float (&s)[kKeyBlocks][4], int ahead) {
#pragma unroll
  for (int block = 0; block < kKeyBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // key: lane's first + 8 block + i % 2; row: g + 8 (i / 2)
      if (block * 8 + i % 2 - i / 2 * 8 > ahead) s[block][i] = tiles::kMinusInfinity;
    }
  }
}

/// Window mask. `behind`: first key of row g's window minus the lane's first key of the page.
__device__ __forceinline__ void mask_earlier_keys(float (&s)[kKeyBlocks][4], int behind) {
#pragma unroll
  for (int block = 0; block < kKeyBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (block * 8 + i % 2 - i / 2 * 8 < behind) s[block][i] = tiles::kMinusInfinity;
    }
  }
}

/// Online-softmax step: replaces the scores `s` by exp2((s - max) * scale), updates row maxima and sums, and
/// returns in `rescale` the factor by which the caller rescales the output (rows g, g + 8). kMayBeEmpty: all
/// keys so far may be masked.
template <int kDim, bool kMayBeEmpty = false>
__device__ __forceinline__ void softmax_step(RowsInProgress<kDim>& rows, float (&s)[kKeyBlocks][4],
                                             float scale, float (&rescale)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float highest = rows.highest[half];
#pragma unroll
    for (const auto& block : s) highest = fmaxf(highest, fmaxf(block[2 * half], block[2 * half + 1]));
    highest = tiles::highest_of_four(highest);
    const float kept = highest;
    if (kMayBeEmpty && highest == tiles::kMinusInfinity) highest = 0;  // avoids infinity - infinity
    rescale[half] = tiles::power_of_two((rows.highest[half] - highest) * scale);
    rows.highest[half] = kept;
    float denominator = rows.denominator[half] * rescale[half];
#pragma unroll
    for (auto& block : s) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        block[i] = tiles::power_of_two((block[i] - highest) * scale);
        denominator += block[i];
      }
    }
    rows.denominator[half] = denominator;
  }
}

/// Rescales the output; does nothing if no row has a new maximum. All lanes of the warp must call it.
template <int kDim>
__device__ __forceinline__ void rescale_rows(RowsInProgress<kDim>& rows, const float (&rescale)[2]) {
  if (!__any_sync(0xffffffffU, rescale[0] != 1.0F || rescale[1] != 1.0F)) return;
#pragma unroll
  for (auto& block : rows.out) {
#pragma unroll
    for (int i = 0; i < 4; ++i) block[i] *= rescale[i / 2];
  }
}

template <int kDim, bool kMayBeEmpty = false>
__device__ __forceinline__ void softmax_page(RowsInProgress<kDim>& rows, float (&s)[kKeyBlocks][4],
                                             float scale) {
  float rescale[2];
  softmax_step<kDim, kMayBeEmpty>(rows, s, scale, rescale);
  rescale_rows(rows, rescale);
}

template <int kDim>
__device__ __forceinline__ void begin_rows(RowsInProgress<kDim>& rows) {
#pragma unroll
  for (auto& block : rows.out) {
#pragma unroll
    for (float& value : block) value = 0;
  }
  rows.highest[0] = rows.highest[1] = tiles::kMinusInfinity;
  rows.denominator[0] = rows.denominator[1] = 0;
}

/// Rounds the probabilities of keys 16 i ... 16 i + 15 into an A fragment.
__device__ __forceinline__ void narrow_probabilities(std::uint32_t (&a)[4], const float (&p)[kKeyBlocks][4],
                                                     int i) {
  a[0] = narrow(p[2 * i][0], p[2 * i][1]);
  a[1] = narrow(p[2 * i][2], p[2 * i][3]);
  a[2] = narrow(p[2 * i + 1][0], p[2 * i + 1][1]);
  a[3] = narrow(p[2 * i + 1][2], p[2 * i + 1][3]);
}

/// out += P V for keys 16 i ... 16 i + 15. `v` is the lane's ldmatrix address in the page.
template <int kDim>
__device__ __forceinline__ void add_values_of(RowsInProgress<kDim>& rows, const std::uint32_t (&a)[4], int i,
                                              std::uint32_t v) {
#pragma unroll
  for (int pair = 0; pair < kDim / 16; ++pair) {
    std::uint32_t b[4];  // b0, b1 of 8 columns, then of the next 8
    load_transposed(b, v + (i * 16 * tiles::kRowStride<kDim> + pair * 16) * sizeof(Bf16));
    multiply_add(rows.out[2 * pair], a, b[0], b[1]);
    multiply_add(rows.out[2 * pair + 1], a, b[2], b[3]);
  }
}

/// out += P V for a page.
template <int kDim>
__device__ __forceinline__ void add_values(RowsInProgress<kDim>& rows, const float (&p)[kKeyBlocks][4],
                                           std::uint32_t v) {
#pragma unroll
  for (int i = 0; i < kGrid / 16; ++i) {
    std::uint32_t a[4];
    narrow_probabilities(a, p, i);
    add_values_of(rows, a, i, v);
  }
}

/// Divides by the sum of probabilities, applies the gate and writes the warp's first `count` rows through
/// `tile`, 16 rows of shared memory that the warp owns, so that global accesses are coalesced.
template <int kDim>
__device__ __forceinline__ void finish_rows(const RowsInProgress<kDim>& rows, Bf16* tile, int count,
                                            const Bf16* gate, std::size_t gate_stride, Bf16* out,
                                            std::size_t out_stride) {
  constexpr int kChunks = kDim / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();  // all lanes have read q, which occupied the tile
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
    const float share = tiles::inverse(tiles::sum_of_four(rows.denominator[half]));
    Bf16* row = tile + (lane / 4 + half * 8) * tiles::kRowStride<kDim> + lane % 4 * 2;
#pragma unroll
    for (int block = 0; block < kDim / 8; ++block) {
      auto* packed = reinterpret_cast<std::uint32_t*>(row + block * 8);
      float first = rows.out[block][2 * half] * share;
      float second = rows.out[block][2 * half + 1] * share;
      if (gate != nullptr) {
        first *= tiles::sigmoid(tiles::first_of(*packed));
        second *= tiles::sigmoid(tiles::second_of(*packed));
      }
      *packed = narrow(first, second);
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
