#pragma once
// Arithmetic of all decode GEMMs.
//
// Bits: k is cut into chunks of 64, dealt round-robin to 8 chains: chain c sums chunks c, c + 8, ... in
// ascending order, and the chains are added in ascending order. Within a chunk the MMAs (m16n8k16: 16 rows of
// W by 8 rows of x) take k in a permuted order that both operands share, so that each thread loads 16
// contiguous bytes:
//   kRun = 8   thread t of four holds k = 8t ... 8t+7 and 32 + 8t ... 32 + 8t + 7; MMA s takes the s-th four
//   kRun = 4   for weights with a scale per 16 columns: MMA s takes k = 16s + 4t ... 16s + 4t + 3
// So an output depends only on its row of x and its row of W, whatever the tile, and whether a chain belongs
// to a warp or to a block. quants/products.cuh has its own multiply for quantized weights.

#include <type_traits>

#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/rows/rows.h"

namespace reprise::gpu::cuda::product {

inline constexpr int kChains = 8;
inline constexpr int kOutputs = 16;  // rows of W in an MMA tile
inline constexpr int kChunk = 64;
inline constexpr int kSmallMRows = 8;  // rows of x in a tile of the small-m kernel

inline constexpr int kRowBytes = kChunk * static_cast<int>(sizeof(Bf16));
inline constexpr int kUnits = kRowBytes / 16;  // 16-byte units in a row of a chunk

/// Swizzled offset of a 16-byte unit of a chunk row: adjacent rows use different banks.
__device__ __forceinline__ int unit_offset(int row, int unit) {
  return row * kRowBytes + (unit ^ (row % 2 * 4)) * 16;
}
/// Reads a lane's 16 bytes of half `half` of a row.
__device__ __forceinline__ uint4 read_unit(const std::byte* rows, int row, int half, int t) {
  return *reinterpret_cast<const uint4*>(rows + unit_offset(row, 4 * half + t));
}

/// A lane's fragment of W, 16 rows by one chunk: rows g and g + 8, both halves of the chunk.
struct WeightPart {
  uint4 low[2];
  uint4 high[2];
};

/// Reads the fragment whose first row is `first` from a chunk in shared memory.
__device__ __forceinline__ WeightPart read_weights(const std::byte* rows, int first, int lane) {
  WeightPart part;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    part.low[half] = read_unit(rows, first + lane / 4, half, lane % 4);
    part.high[half] = read_unit(rows, first + lane / 4 + 8, half, lane % 4);
  }
  return part;
}

/// A lane's fragment of x, 8 rows by one chunk: row g, two registers per MMA.
struct RowPart {
  uint2 of[4];
};

/// Returns the first k that thread t supplies to MMA s.
template <int kRun>
__device__ __forceinline__ int k_in_chunk(int s, int t) {
  static_assert(kRun == 8 || kRun == 4);
  return kRun == 8 ? s / 2 * 32 + 8 * t + s % 2 * 4 : 16 * s + 4 * t;
}

/// Builds a RowPart. `read(ahead)` returns kRun elements, `ahead` (a constant) elements after the lane's
/// first.
template <int kRun, class Read>
__device__ __forceinline__ RowPart collect_row(const Read& read) {
  RowPart part;
#pragma unroll
  for (int s = 0; s < 4; s += kRun / 4) {
    const auto run = read(k_in_chunk<kRun>(s, 0));
    part.of[s] = make_uint2(run.x, run.y);
    if constexpr (kRun == 8) part.of[s + 1] = make_uint2(run.z, run.w);
  }
  return part;
}

template <int kRun>
using Run = std::conditional_t<kRun == 8, uint4, uint2>;

/// sums (C fragment: outputs by rows of x) += W x^T for one chunk.
__device__ __forceinline__ void multiply_chunk(float (&sums)[4], const WeightPart& w, const RowPart& x) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t first[4] = {w.low[half].x, w.high[half].x, w.low[half].y, w.high[half].y};
    const std::uint32_t second[4] = {w.low[half].z, w.high[half].z, w.low[half].w, w.high[half].w};
    multiply_add(sums, first, x.of[2 * half].x, x.of[2 * half].y);
    multiply_add(sums, second, x.of[2 * half + 1].x, x.of[2 * half + 1].y);
  }
}

/// Stores a C fragment transposed: [row of x][output], row pitch kPitch.
template <int kPitch>
__device__ __forceinline__ void put_sums(const float (&sums)[4], float* to, int lane) {
  const int g = lane / 4;
  const int t = lane % 4;
  to[2 * t * kPitch + g] = sums[0];
  to[(2 * t + 1) * kPitch + g] = sums[1];
  to[2 * t * kPitch + g + 8] = sums[2];
  to[(2 * t + 1) * kPitch + g + 8] = sums[3];
}

// -- rows of x of a block

/// A block's GEMM: rows [first, end) by the weight w. Row r reads row list[r] of x; null `list`: row r.
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
  static constexpr bool kKnownLate = false;  // needs no previous kernel
  const std::byte* w;
  int m;

  __device__ RowTile at(int tile, int rows) const { return {w, tile * rows, m, nullptr}; }
};

/// Prefetches a line that no kernel writes into L1.
__device__ __forceinline__ void prefetch_line(const float* at) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(at));
}

// -- fused RMSNorm of f32 rows, in the summation order of the GEMMs

/// Adds eight squares to `sum` in ascending order.
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

/// Returns, to each of the four lanes t that share a row, the sum of squares of one chain.
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

/// Four elements of the normalized row, rounded to bf16.
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
