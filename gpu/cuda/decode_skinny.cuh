#pragma once
// Products of few decoded rows: a skinny product that reads each weight once. The order of its additions is that of
// gpu/cuda/decode_product.cuh. Included by CUDA sources alone, a source for each format.
//
// A block of 8 warps makes some outputs for up to 8 rows of x; a warp has a chain, and a ring of chunks of weights that
// begin to come before the kernel in front has ended. A Ring is how weights of a format come:
//   kOutputs, kWarpBytes, kDepth    of a block; of shared memory for a warp; chunks that are under way
//   kTogether                       blocks that a multiprocessor has at least
//   kPartsAhead                     chunks of rows that a warp reads at once
//   Ring(memory, w, columns, block, output)
//   kRun                                  of its columns (gpu/cuda/decode_product.cuh)
//   begin_load(index, chunk, chunks)      the next chunk of the warp into place `index`, `chunk` of all, if there is such a one
//   prepare(x)                            what products of all tiles need of the rows' chunk
//   multiply(sums, index, chunk, tile, lane, prepared)

#include <type_traits>

#include "base/check.h"
#include "gpu/cuda/decode_outputs.cuh"
#include "gpu/cuda/decode_product.cuh"
#include "gpu/cuda/dependent_launch.cuh"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/shared_memory.cuh"

namespace reprise::gpu::cuda::product {

inline constexpr int kSkinnyThreads = kChains * 32;
inline constexpr int kWide = 6144;    // outputs from which blocks of 32 are enough for all multiprocessors
inline constexpr int kNarrow = 3072;  // and blocks of 16

/// Where x comes from: rows of bf16, or the norm of rows of f32.
struct PlainRows {
  const Bf16* x;
};
struct RowsToNorm : NormedRows {
  explicit RowsToNorm(const NormedRows& rows) : NormedRows(rows) {}
};

/// The norm's factor of row g of the block's, to all lanes; of a row beyond m it means nothing. All threads call it.
__device__ __forceinline__ float scale_of_row(const RowsToNorm& rows, int m, int columns, int chain,
                                              int lane) {
  __shared__ float squares[kChains][kSkinnyRows];
  const int g = lane / 4;
  const float* row = rows.x + static_cast<std::size_t>(min(g, m - 1)) * columns;
  const float own = squares_of_chain(row, chain, lane % 4, columns);
  if (lane % 4 == 0) squares[chain][g] = own;
  __syncthreads();
  float total = 0;
#pragma unroll
  for (int i = 0; i < kChains; ++i) total += squares[i][g];
  return norm_scale(total, columns, rows.norm.eps);
}

/// Of RowsToNorm there are 8 at most, and one weight.
template <class Ring, class Rows, class Where, class Output>
__global__ void __launch_bounds__(kSkinnyThreads, Ring::kTogether)
    skinny_product(Rows rows, Where where, int columns, Output output) {
  constexpr bool kNormed = std::is_same_v<Rows, RowsToNorm>;
  constexpr int kOutputTiles = (Ring::kOutputs + kOutputs - 1) / kOutputs;
  constexpr int kPitch = kOutputTiles * kOutputs + 1;
  extern __shared__ __align__(128) std::byte memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;  // row of W, and row of x, in a tile
  const int t = lane % 4;  // share of k
  const int block = static_cast<int>(blockIdx.x);
  const int chunks = (columns + kChunk - 1) / kChunk;

  if constexpr (Where::kKnownLate) wait_for_earlier();
  const RowTile tile = where.at(static_cast<int>(blockIdx.y), kSkinnyRows);
  if (tile.first >= tile.end) return;
  Ring ring(memory + warp * Ring::kWarpBytes, tile.w, columns, block, output);
#pragma unroll
  for (int i = 0; i < Ring::kDepth; ++i) ring.begin_load(i, warp + i * kChains, chunks);
  if constexpr (kNormed) {
    for (int i = static_cast<int>(threadIdx.x) * 32; i < columns; i += kSkinnyThreads * 32) {
      ask_for(rows.norm.weight + i);
    }
  }
  const int block_rows = min(kSkinnyRows, tile.end - tile.first);
  ask_ahead<Ring::kOutputs>(output, block);

  if constexpr (!Where::kKnownLate) wait_for_earlier();
  let_next_begin();
  begin_rows<kSkinnyThreads>(output, tile.first, block_rows);
  const bool has_row = tile.has(g);
  const auto* row = rows.x + (has_row ? tile.row_of_x(g) * columns : 0);
  float scale = 0;
  bool keeps = false;  // one block does
  if constexpr (kNormed) {
    scale = scale_of_row(rows, tile.end, columns, warp, lane);
    keeps = rows.kept != nullptr && block == 0;
  }
  int k = warp * kChunk + place_in_chunk<Ring::kRun>(0, t);
  const auto* at = row + k;
  const auto next_part = [&] {
    const int left = (has_row ? columns : 0) - k;
    const RowPart part = collect_row<Ring::kRun>([&](int ahead) {
      if (ahead >= left) return Run<Ring::kRun>{};
      if constexpr (!kNormed) {
        return *reinterpret_cast<const Run<Ring::kRun>*>(at + ahead);
      } else {
        const auto run = normed_run<Ring::kRun>(row, rows.norm, scale, rows.factor, k + ahead);
        if (keeps) *reinterpret_cast<Run<Ring::kRun>*>(rows.kept + g * columns + k + ahead) = run;
        return run;
      }
    });
    k += kChains * kChunk;
    at += kChains * kChunk;
    return part;
  };

  float sums[kOutputTiles][4] = {};
  int index = 0;
  for (int chunk = warp; chunk < chunks;) {
    RowPart parts[Ring::kPartsAhead];  // read at once: they do not wait for each other
#pragma unroll
    for (RowPart& part : parts) part = next_part();
#pragma unroll
    for (const RowPart& part : parts) {
      if (chunk >= chunks) break;
      const auto x = Ring::prepare(part);
      wait_for_copies<Ring::kDepth - 1>();
      __syncwarp();
#pragma unroll
      for (int o = 0; o < kOutputTiles; ++o) ring.multiply(sums[o], index, chunk, o, lane, x);
      __syncwarp();
      ring.begin_load(index, chunk + Ring::kDepth * kChains, chunks);
      chunk += kChains;
      ++index;
    }
  }

  __shared__ float partial[kChains][kSkinnyRows * kPitch];
#pragma unroll
  for (int o = 0; o < kOutputTiles; ++o) put_sums<kPitch>(sums[o], partial[warp] + kOutputs * o, lane);
  __syncthreads();
  output.template put_block<Ring::kOutputs, kSkinnyThreads>(
      block, tile.first, block_rows, [&](int of_row, int column) {
        float sum = 0;
#pragma unroll
        for (int chain = 0; chain < kChains; ++chain) sum += partial[chain][of_row * kPitch + column];
        return sum;
      });
}

/// `tiles`: of rows.
template <class Ring, class Rows, class Where, class Output>
void launch_skinny_at(const Rows& rows, const Where& where, int tiles, const DeviceWeight& weight,
                      const Output& output, StreamHandle stream) {
  constexpr int kBytes = kChains * Ring::kWarpBytes;
  const auto kernel = skinny_product<Ring, Rows, Where, Output>;
  static_assert(kBytes <= kLeastShared);
  allow_shared(kernel, kBytes);
  const LaunchShape shape{.blocks = dim3((weight.rows + Ring::kOutputs - 1) / Ring::kOutputs, tiles),
                          .threads = kSkinnyThreads,
                          .shared_bytes = kBytes};
  launch_after(kernel, shape, stream, rows, where, weight.columns, output);
}

template <class Ring, class Rows, class Output>
void launch_skinny(const Rows& rows, int m, const DeviceWeight& weight, const Output& output,
                   StreamHandle stream) {
  launch_skinny_at<Ring>(rows, OneWeight{static_cast<const std::byte*>(weight.data), m},
                         (m + kSkinnyRows - 1) / kSkinnyRows, weight, output, stream);
}

/// Ring of so many outputs, by how many outputs there are, so that all multiprocessors have some: the bits are the same.
template <template <int, class> class Ring, class Rows, class Output>
void launch_skinny_for(const Rows& rows, int m, const DeviceWeight& weight, const Output& output,
                       StreamHandle stream) {
  if (weight.rows >= kWide) {
    launch_skinny<Ring<32, Output>>(rows, m, weight, output, stream);
  } else if (weight.rows >= kNarrow) {
    launch_skinny<Ring<16, Output>>(rows, m, weight, output, stream);
  } else {
    launch_skinny<Ring<8, Output>>(rows, m, weight, output, stream);
  }
}

inline void check_few(int m) {
  REPRISE_CHECK(m <= kMostNormedRows, "more rows than a product takes the norm of");
}

}  // namespace reprise::gpu::cuda::product
