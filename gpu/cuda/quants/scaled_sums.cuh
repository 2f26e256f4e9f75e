#pragma once
// Decoded rows by quantised weights: the arithmetic. Included by CUDA sources alone.
//
// Chunks and chains are those of gpu/cuda/decode_product.cuh. Within a chunk, the columns of a scale are multiplied by the
// numbers of the file, which are bf16 exactly, and summed in f32 from zero; that sum times the scale is added to the chain's
// sum in f32. So no weight is rounded, and a scale costs a multiplication for each output and row, not for each weight.
// Where something is added to weights, it is multiplied by the sum of x over these columns (a product with ones), and added
// next. Numbers of few bits keep the 128 by which bits became bf16: it goes into what is added; but where a scale has 16
// columns alone it is taken from them, which costs less there.
//
// The bits of an output depend on its row of x and its row of W alone, as there.

#include "gpu/cuda/decode_product.cuh"
#include "gpu/cuda/quants/formats.cuh"

namespace reprise::gpu::cuda::quants {

/// Whether numbers keep their 128, so that sums over x are needed.
template <class Format>
inline constexpr bool kKeeps128 = Format::kZero >= 0 && Format::kScales == 2;

/// What a lane holds of a chunk of 16 rows of W: of rows g and g + 8 the numbers in pairs, and the factors.
template <class Format>
struct Part {
  Pair low[2][4];
  Pair high[2][4];
  float low_factors[4];
  float high_factors[4];

  // Of four factors: four scales, or two, or a scale and what is added, and the next.
  __device__ static constexpr int scale_at(int i) { return kKeeps128<Format> ? 2 * i : i; }
  __device__ static constexpr int offset_at(int i) { return 2 * i + 1; }
};

/// Floats of a row's factors, and the memory of a warp for those of a tile.
template <class Format>
inline constexpr int kFactors = Format::kScales*(kKeeps128<Format> ? 2 : 1);
template <class Format>
inline constexpr int kFactorBytes = product::kOutputs* kFactors<Format>* static_cast<int>(sizeof(float));

template <int kCount>
__device__ __forceinline__ void read_factors(const float* from, float (&to)[4]) {
  if constexpr (kCount == 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  } else {
    static_assert(kCount == 2);
    const float2 two = *reinterpret_cast<const float2*>(from);
    to[0] = two.x;
    to[1] = two.y;
  }
}

template <class Format>
__device__ __forceinline__ void read_numbers(const std::byte* chunk, int lane, Pair (&q)[2][4]) {
  if constexpr (kKeeps128<Format>) {
    Format::read(chunk, lane, q);
  } else {
    numbers<Format>(chunk, lane, q);
  }
}

/// Of kGroups groups of eight rows (two, or one and nothing) that stand in shared memory, header and chunk each; all lanes of
/// a warp call it. `chunk` of its block; `own` has kFactorBytes.
template <class Format, int kGroups>
__device__ __forceinline__ Part<Format> part_of(const std::byte* groups, std::byte* own, int chunk,
                                                int lane) {
  constexpr int kGroupBytes = Format::kHeaderBytes + Format::kChunkBytes;
  constexpr int kScales = Format::kScales;
  auto* factors = reinterpret_cast<float*>(own);  // [16 rows][kFactors]
  __syncwarp();                                   // nobody reads those of the tile before
#pragma unroll
  for (int i = 0; i < (kGroups * kRows * kScales + 31) / 32; ++i) {
    const int item = 32 * i + lane;
    const int row = item / kScales;
    if (row < kGroups * kRows) {
      const Factor factor =
          Format::factor(groups + row / kRows * kGroupBytes, row % kRows, chunk, item % kScales);
      if constexpr (kKeeps128<Format>) {
        const float offset = __fmaf_rn(-static_cast<float>(128 + Format::kZero), factor.scale, factor.offset);
        reinterpret_cast<float2*>(factors)[item] = make_float2(factor.scale, offset);
      } else {
        factors[item] = factor.scale;
      }
    }
  }
  Part<Format> part;
  read_numbers<Format>(groups + Format::kHeaderBytes, lane, part.low);
  if constexpr (kGroups == 2) {
    read_numbers<Format>(groups + kGroupBytes + Format::kHeaderBytes, lane, part.high);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) part.high[i / 4][i % 4] = as_pair(0);
  }
  __syncwarp();
  // Where there are no rows g + 8 their sums go nowhere, whatever they are multiplied by.
  constexpr int kOfRow = kFactors<Format>;
  read_factors<kOfRow>(factors + lane / 4 * kOfRow, part.low_factors);
  read_factors<kOfRow>(factors + (lane / 4 + (kGroups == 2 ? kRows : 0)) * kOfRow, part.high_factors);
  return part;
}

/// The sums of x over the columns of both scales of a chunk: rows 2 t, 2 t + 1 of the first, then of the second.
__device__ __forceinline__ float4 sums_over_columns(const product::RowPart& x) {
  constexpr std::uint32_t kOnes = 0x3f803f80;
  const std::uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
  float first[4];
  float second[4];
  multiply(first, ones, x.of[0].x, x.of[0].y);
  multiply(second, ones, x.of[2].x, x.of[2].y);
  multiply_add(first, ones, x.of[1].x, x.of[1].y);
  multiply_add(second, ones, x.of[3].x, x.of[3].y);
  return make_float4(first[0], first[1], second[0], second[1]);
}

/// sums (a C fragment: outputs by rows of x) += the chunk's product. `row_sums`: see sums_over_columns(), if needed.
template <class Format>
__device__ __forceinline__ void add_scaled(float (&sums)[4], const Part<Format>& w, const product::RowPart& x,
                                           const float4& row_sums) {
  constexpr int kInstructions = 4 / Format::kScales;  // of a scale
#pragma unroll
  for (int i = 0; i < Format::kScales; ++i) {
    float unscaled[4];
#pragma unroll
    for (int j = 0; j < kInstructions; ++j) {
      const int s = kInstructions * i + j;
      const Pair* low = w.low[s / 2] + s % 2 * 2;
      const Pair* high = w.high[s / 2] + s % 2 * 2;
      const std::uint32_t a[4] = {bits_of(low[0]), bits_of(high[0]), bits_of(low[1]), bits_of(high[1])};
      if (j == 0) {
        multiply(unscaled, a, x.of[s].x, x.of[s].y);
      } else {
        multiply_add(unscaled, a, x.of[s].x, x.of[s].y);
      }
    }
    const float low = w.low_factors[w.scale_at(i)];
    const float high = w.high_factors[w.scale_at(i)];
    sums[0] = __fmaf_rn(low, unscaled[0], sums[0]);
    sums[1] = __fmaf_rn(low, unscaled[1], sums[1]);
    sums[2] = __fmaf_rn(high, unscaled[2], sums[2]);
    sums[3] = __fmaf_rn(high, unscaled[3], sums[3]);
    if constexpr (kKeeps128<Format>) {
      const float2 of_rows =
          i == 0 ? make_float2(row_sums.x, row_sums.y) : make_float2(row_sums.z, row_sums.w);
      const float low_offset = w.low_factors[w.offset_at(i)];
      const float high_offset = w.high_factors[w.offset_at(i)];
      sums[0] = __fmaf_rn(low_offset, of_rows.x, sums[0]);
      sums[1] = __fmaf_rn(low_offset, of_rows.y, sums[1]);
      sums[2] = __fmaf_rn(high_offset, of_rows.x, sums[2]);
      sums[3] = __fmaf_rn(high_offset, of_rows.y, sums[3]);
    }
  }
}

}  // namespace reprise::gpu::cuda::quants
