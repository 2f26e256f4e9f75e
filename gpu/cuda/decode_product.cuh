#pragma once
// The arithmetic of products of few rows with weights of bf16, for every kernel that computes them. Included by CUDA
// sources alone.
//
// The sum over k is cut into chunks of 64 and these into eight chains: chain c has chunks c, c + 8, ... ascending. The
// sums of the chains are added in the order of their numbers. Within a chunk a tensor core instruction (m16n8k16: 16
// rows of W by 8 rows of x) takes k in a permuted order that both operands share, so that each thread reads 16
// contiguous bytes:
//   thread t of four holds k = 8t ... 8t+7 and 32 + 8t ... 32 + 8t + 7 of the chunk;
//   instruction s takes the s-th four of these from each thread.
// So the bits of an output depend on its row of x and its row of W alone, whatever the tiles of a kernel are, and
// whether a chain is a warp's or a block's.

#include "gpu/cuda/rows.h"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda::product {

inline constexpr int kChains = 8;
inline constexpr int kOutputs = 16;  // rows of W in a tile
inline constexpr int kChunk = 64;

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

/// What a lane holds of a chunk of 8 rows of x: of row g, both halves of the chunk.
struct RowPart {
  uint4 of[2];
};

/// `row`: the lane's row of x, null where there is none.
__device__ __forceinline__ RowPart load_row(const Bf16* row, int k, int columns) {
  RowPart part;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = k + 32 * half;
    part.of[half] =
        row != nullptr && at < columns ? *reinterpret_cast<const uint4*>(row + at) : make_uint4(0, 0, 0, 0);
  }
  return part;
}

/// sums (a C fragment: outputs by rows of x) += the chunk's product.
__device__ __forceinline__ void multiply_chunk(float (&sums)[4], const WeightPart& w, const RowPart& x) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t first[4] = {w.low[half].x, w.high[half].x, w.low[half].y, w.high[half].y};
    const std::uint32_t second[4] = {w.low[half].z, w.high[half].z, w.low[half].w, w.high[half].w};
    multiply_add(sums, first, x.of[half].x, x.of[half].y);
    multiply_add(sums, second, x.of[half].z, x.of[half].w);
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

/// Eight elements of the norm of a row, rounded.
__device__ __forceinline__ uint4 normed_eight(const float* row, const RowNorm& norm, float scale,
                                              float factor, int at) {
  const auto one = [&](float x, float weight) { return x * scale * (norm.offset + weight) * factor; };
  std::uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float4 x = *reinterpret_cast<const float4*>(row + at + 4 * i);
    const float4 w = __ldg(reinterpret_cast<const float4*>(norm.weight + at + 4 * i));
    pairs[2 * i] = narrow(one(x.x, w.x), one(x.y, w.y));
    pairs[2 * i + 1] = narrow(one(x.z, w.z), one(x.w, w.w));
  }
  return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

}  // namespace reprise::gpu::cuda::product
