#pragma once
// The arithmetic of products of few rows, for every kernel that computes them. Included by CUDA sources alone.
//
// The sum over k is cut into chunks of 64 and these into eight chains: chain c has chunks c, c + 8, ... ascending. The
// sums of the chains are added in the order of their numbers. Within a chunk a tensor core instruction (m16n8k16: 16
// rows of W by 8 rows of x) takes k in a permuted order that both operands share, so that each thread reads 16
// contiguous bytes:
//   thread t of four holds k = 8t ... 8t+7 and 32 + 8t ... 32 + 8t + 7 of the chunk;
//   instruction s takes the s-th four of these from each thread.
// That is a run of eight. Weights whose scales are for 16 columns have runs of four: instruction s takes k = 16s + 4t ...
// What weights of bf16 do with it is multiply_chunk(); of quantized ones, gpu/cuda/quants/products.cuh.
// So the bits of an output depend on its row of x and its row of W alone, whatever the tiles of a kernel are, and
// whether a chain is a warp's or a block's.

#include <type_traits>

#include "gpu/cuda/rows.h"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda::product {

inline constexpr int kChains = 8;
inline constexpr int kOutputs = 16;  // rows of W in a tile
inline constexpr int kChunk = 64;
inline constexpr int kSkinnyRows = 8;  // of x, in a block of gpu/cuda/decode_skinny.cuh

inline constexpr int kRowBytes = kChunk * static_cast<int>(sizeof(Bf16));
inline constexpr int kUnits = kRowBytes / 16;  // of 16 bytes, in a row of a chunk

/// Where 16 bytes of a row of a chunk stand in shared memory: lanes of two neighbouring rows read different banks.
__device__ __forceinline__ int place_of(int row, int unit) {
  return row * kRowBytes + (unit ^ (row % 2 * 4)) * 16;
}
/// A lane's 16 bytes of a half of a row.
__device__ __forceinline__ uint4 read_unit(const std::byte* rows, int row, int half, int t) {
  return *reinterpret_cast<const uint4*>(rows + place_of(row, 4 * half + t));
}

/// What a lane holds of a chunk of 16 rows of W: of rows g and g + 8, both halves of the chunk.
struct WeightPart {
  uint4 low[2];
  uint4 high[2];
};

/// From rows of a chunk in shared memory, of which `first` is the tile's first.
__device__ __forceinline__ WeightPart read_weights(const std::byte* rows, int first, int lane) {
  WeightPart part;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    part.low[half] = read_unit(rows, first + lane / 4, half, lane % 4);
    part.high[half] = read_unit(rows, first + lane / 4 + 8, half, lane % 4);
  }
  return part;
}

/// What a lane holds of a chunk of 8 rows of x: of row g, what each instruction takes.
struct RowPart {
  uint2 of[4];
};

/// The first k of what thread t gives to instruction s.
template <int kRun>
__device__ __forceinline__ int place_in_chunk(int s, int t) {
  static_assert(kRun == 8 || kRun == 4);
  return kRun == 8 ? s / 2 * 32 + 8 * t + s % 2 * 4 : 16 * s + 4 * t;
}

/// `read(ahead)`: kRun elements of the lane's row, as uint4 or uint2, from `ahead` behind its first place in the chunk on;
/// `ahead` is a constant.
template <int kRun, class Read>
__device__ __forceinline__ RowPart collect_row(const Read& read) {
  RowPart part;
#pragma unroll
  for (int s = 0; s < 4; s += kRun / 4) {
    const auto run = read(place_in_chunk<kRun>(s, 0));
    part.of[s] = make_uint2(run.x, run.y);
    if constexpr (kRun == 8) part.of[s + 1] = make_uint2(run.z, run.w);
  }
  return part;
}

template <int kRun>
using Run = std::conditional_t<kRun == 8, uint4, uint2>;

/// sums (a C fragment: outputs by rows of x) += the chunk's product.
__device__ __forceinline__ void multiply_chunk(float (&sums)[4], const WeightPart& w, const RowPart& x) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t first[4] = {w.low[half].x, w.high[half].x, w.low[half].y, w.high[half].y};
    const std::uint32_t second[4] = {w.low[half].z, w.high[half].z, w.low[half].w, w.high[half].w};
    multiply_add(sums, first, x.of[2 * half].x, x.of[2 * half].y);
    multiply_add(sums, second, x.of[2 * half + 1].x, x.of[2 * half + 1].y);
  }
}

/// A C fragment into [rows][kPitch] of shared memory, transposed: row of x, then output.
template <int kPitch>
__device__ __forceinline__ void put_sums(const float (&sums)[4], float* to, int lane) {
  const int g = lane / 4;
  const int t = lane % 4;
  to[2 * t * kPitch + g] = sums[0];
  to[(2 * t + 1) * kPitch + g] = sums[1];
  to[2 * t * kPitch + g + 8] = sums[2];
  to[(2 * t + 1) * kPitch + g + 8] = sums[3];
}

// -- which rows of x meet which weight

/// What a block multiplies: rows [first, end) of the product by the weight w. Row r of the product is of row list[r] of x,
/// or of row r where there is no list.
struct RowTile {
  const std::byte* w;
  int first;
  int end;
  const std::int32_t* list;

  __device__ bool has(int row) const { return first + row < end; }
  __device__ std::size_t row_of_x(int row) const { return list == nullptr ? first + row : list[first + row]; }
};

/// All m rows by one weight.
struct OneWeight {
  static constexpr bool kKnownLate = false;  // before the kernel in front has ended
  const std::byte* w;
  int m;

  __device__ RowTile at(int tile, int rows) const { return {w, tile * rows, m, nullptr}; }
};

// -- reading ahead

/// Asks for the line of an element that no kernel changes: who reads it later finds it nearer.
__device__ __forceinline__ void ask_for(const float* at) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(at));
}

// -- a norm of rows of f32, in the order that products have

/// Eight squares, added to `sum` in ascending order.
__device__ __forceinline__ float add_squares(float sum, const float* x) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float4 four = *reinterpret_cast<const float4*>(x + 4 * i);
    sum = fmaf(four.x, four.x, sum);
    sum = fmaf(four.y, four.y, sum);
    sum = fmaf(four.z, four.z, sum);
    sum = fmaf(four.w, four.w, sum);
  }
  return sum;
}

/// The squares of a chain of a row, by the four lanes t that share it: all of them get the sum.
__device__ __forceinline__ float squares_of_chain(const float* row, int chain, int t, int columns) {
  float sum = 0;
  for (int k = chain * kChunk + 8 * t; k < columns; k += kChains * kChunk) {
    sum = add_squares(sum, row + k);
    if (k + 32 < columns) sum = add_squares(sum, row + k + 32);
  }
  sum += __shfl_xor_sync(~0U, sum, 1);
  return sum + __shfl_xor_sync(~0U, sum, 2);
}

__device__ __forceinline__ float norm_scale(float squares, int size, float eps) {
  return 1.0F / sqrtf(squares / static_cast<float>(size) + eps);
}

/// Four elements of the norm of a row, rounded.
__device__ __forceinline__ uint2 normed_four(const float* row, const RowNorm& norm, float scale, float factor,
                                             int at) {
  const auto one = [&](float x, float weight) { return x * scale * (norm.offset + weight) * factor; };
  const float4 x = *reinterpret_cast<const float4*>(row + at);
  const float4 w = __ldg(reinterpret_cast<const float4*>(norm.weight + at));
  return make_uint2(narrow(one(x.x, w.x), one(x.y, w.y)), narrow(one(x.z, w.z), one(x.w, w.w)));
}
__device__ __forceinline__ uint4 normed_eight(const float* row, const RowNorm& norm, float scale,
                                              float factor, int at) {
  const uint2 first = normed_four(row, norm, scale, factor, at);
  const uint2 second = normed_four(row, norm, scale, factor, at + 4);
  return make_uint4(first.x, first.y, second.x, second.y);
}
template <int kRun>
__device__ __forceinline__ Run<kRun> normed_run(const float* row, const RowNorm& norm, float scale,
                                                float factor, int at) {
  if constexpr (kRun == 8) {
    return normed_eight(row, norm, scale, factor, at);
  } else {
    return normed_four(row, norm, scale, factor, at);
  }
}

}  // namespace reprise::gpu::cuda::product
