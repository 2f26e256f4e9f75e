#pragma once
// Products of few decoded rows: a skinny product that reads each weight once. The order of its additions is that of
// gpu/cuda/decode_product.cuh. Included by CUDA sources alone, a source for each format.
//
// A block of 8 warps makes some outputs for up to 8 rows of x, or 16, two tiles of them; a warp has a chain, and a ring of chunks
// of weights that begin to come before the kernel in front has ended. A Ring is how weights of a format come:
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
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/launch.cuh"

namespace reprise::gpu::cuda::product {

inline constexpr int kSkinnyThreads = kChains * 32;
inline constexpr int kWide = 6144;    // outputs from which blocks of 32 are enough for all multiprocessors
inline constexpr int kNarrow = 3072;  // and blocks of 16
inline constexpr int kTilesAlone =
    8448;  // outputs up to which a large GPU's multiprocessors have one tile of 64 each

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

/// What depends on how many tiles of rows a block has.
template <class Ring, int kRowTiles>
struct SkinnyShape {
  static constexpr int kRows = kSkinnyRows * kRowTiles;
  static constexpr int kTogether = kRowTiles == 1 ? Ring::kTogether : 2;
  static constexpr int kPartsAhead = kRowTiles == 1 ? Ring::kPartsAhead : 2;
  static constexpr int kOutputTiles = (Ring::kOutputs + kOutputs - 1) / kOutputs;
  static constexpr int kPitch = kOutputTiles * kOutputs + 1;

  /// Where a warp puts its sums: memory of its own, or its ring, when it has read all of it.
  __device__ static float* sums_of(std::byte* rings, int warp) {
    if constexpr (kRowTiles == 1) {
      __shared__ float sums[kChains][kRows * kPitch];
      return sums[warp];
    } else {
      static_assert(kRows * kPitch * static_cast<int>(sizeof(float)) <= Ring::kWarpBytes);
      return reinterpret_cast<float*>(rings + warp * Ring::kWarpBytes);
    }
  }
};

/// Of RowsToNorm there are 8 at most, and one weight.
template <class Ring, int kRowTiles, class Rows, class Where, class Output>
__global__ void __launch_bounds__(kSkinnyThreads, SkinnyShape<Ring, kRowTiles>::kTogether)
    skinny_product(Rows rows, Where where, int columns, Output output) {
  using Shape = SkinnyShape<Ring, kRowTiles>;
  constexpr bool kNormed = std::is_same_v<Rows, RowsToNorm>;
  static_assert(!kNormed || kRowTiles == 1);
  extern __shared__ __align__(128) std::byte memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;  // row of W, and row of x, in a tile
  const int t = lane % 4;  // share of k
  const int block = static_cast<int>(blockIdx.x);
  const int chunks = (columns + kChunk - 1) / kChunk;

  if constexpr (Where::kKnownLate) wait_for_earlier();
  const RowTile tile = where.at(static_cast<int>(blockIdx.y), Shape::kRows);
  if (tile.first >= tile.end) return;
  Ring ring(memory + warp * Ring::kWarpBytes, tile.w, columns, block, output);
#pragma unroll
  for (int i = 0; i < Ring::kDepth; ++i) ring.begin_load(i, warp + i * kChains, chunks);
  if constexpr (kNormed) {
    for (int i = static_cast<int>(threadIdx.x) * 32; i < columns; i += kSkinnyThreads * 32) {
      ask_for(rows.norm.weight + i);
    }
  }
  const int block_rows = min(Shape::kRows, tile.end - tile.first);
  ask_ahead<Ring::kOutputs>(output, block);

  if constexpr (!Where::kKnownLate) wait_for_earlier();
  let_next_begin();
  begin_rows<kSkinnyThreads>(output, tile.first, block_rows);
  bool has_row[kRowTiles];
  decltype(rows.x) at[kRowTiles];  // the lane's place in its rows
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
    has_row[i] = tile.has(kSkinnyRows * i + g);
    at[i] = rows.x + (has_row[i] ? tile.row_of_x(kSkinnyRows * i + g) * columns : 0);
  }
  [[maybe_unused]] const auto* row = at[0];
  float scale = 0;
  bool keeps = false;  // one block does
  if constexpr (kNormed) {
    scale = scale_of_row(rows, tile.end, columns, warp, lane);
    keeps = rows.kept != nullptr && block == 0;
  }
  int k = warp * kChunk + place_in_chunk<Ring::kRun>(0, t);
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) at[i] += k;
  const auto part_of = [&](int i) {
    const int left = (has_row[i] ? columns : 0) - k;
    return collect_row<Ring::kRun>([&](int ahead) {
      if (ahead >= left) return Run<Ring::kRun>{};
      if constexpr (!kNormed) {
        return *reinterpret_cast<const Run<Ring::kRun>*>(at[i] + ahead);
      } else {
        const auto run = normed_run<Ring::kRun>(row, rows.norm, scale, rows.factor, k + ahead);
        if (keeps) *reinterpret_cast<Run<Ring::kRun>*>(rows.kept + g * columns + k + ahead) = run;
        return run;
      }
    });
  };
  const auto read_parts = [&](RowPart(&parts)[kRowTiles]) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      parts[i] = part_of(i);
      at[i] += kChains * kChunk;
    }
    k += kChains * kChunk;
  };

  float sums[Shape::kOutputTiles][kRowTiles][4] = {};
  int index = 0;
  for (int chunk = warp; chunk < chunks;) {
    RowPart ahead[Shape::kPartsAhead][kRowTiles];  // read at once: they do not wait for each other
#pragma unroll
    for (auto& parts : ahead) read_parts(parts);
#pragma unroll
    for (const auto& parts : ahead) {
      if (chunk >= chunks) break;
      wait_for_copies<Ring::kDepth - 1>();
      __syncwarp();
      std::decay_t<decltype(Ring::prepare(parts[0]))> x[kRowTiles];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) x[i] = Ring::prepare(parts[i]);
#pragma unroll
      for (int o = 0; o < Shape::kOutputTiles; ++o) {
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) ring.multiply(sums[o][i], index, chunk, o, lane, x[i]);
      }
      __syncwarp();
      ring.begin_load(index, chunk + Ring::kDepth * kChains, chunks);
      chunk += kChains;
      ++index;
    }
  }

  if constexpr (kRowTiles > 1) {
    wait_for_copies<0>();
    __syncwarp();
  }
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int o = 0; o < Shape::kOutputTiles; ++o) {
      put_sums<Shape::kPitch>(
          sums[o][i], Shape::sums_of(memory, warp) + kSkinnyRows * i * Shape::kPitch + kOutputs * o, lane);
    }
  }
  __syncthreads();
  output.template put_block<Ring::kOutputs, kSkinnyThreads>(
      block, tile.first, block_rows, [&](int of_row, int column) {
        float sum = 0;
#pragma unroll
        for (int chain = 0; chain < kChains; ++chain) {
          sum += Shape::sums_of(memory, chain)[of_row * Shape::kPitch + column];
        }
        return sum;
      });
}

/// `tiles`: of rows, each of kRowTiles times 8.
template <class Ring, int kRowTiles = 1, class Rows, class Where, class Output>
void launch_skinny_at(const Rows& rows, const Where& where, int tiles, const DeviceWeight& weight,
                      const Output& output, StreamHandle stream) {
  constexpr int kBytes = kChains * Ring::kWarpBytes;
  const auto kernel = skinny_product<Ring, kRowTiles, Rows, Where, Output>;
  static_assert(kBytes <= kLeastShared);
  allow_shared(kernel, kBytes);
  const LaunchShape shape{.blocks = dim3((weight.rows + Ring::kOutputs - 1) / Ring::kOutputs, tiles),
                          .threads = kSkinnyThreads,
                          .shared_bytes = kBytes};
  launch_after(kernel, shape, stream, rows, where, weight.columns, output);
}

template <class Ring, int kRowTiles = 1, class Rows, class Output>
void launch_skinny(const Rows& rows, int m, const DeviceWeight& weight, const Output& output,
                   StreamHandle stream) {
  constexpr int kRows = kRowTiles * kSkinnyRows;
  launch_skinny_at<Ring, kRowTiles>(rows, OneWeight{static_cast<const std::byte*>(weight.data), m},
                                    (m + kRows - 1) / kRows, weight, output, stream);
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

/// Whether blocks that have all of 9 to 16 rows are the way to multiply them: there are enough outputs for all multiprocessors,
/// and so few that a block of 64 would stand alone on its own and wait for one chunk after the other.
inline bool two_tiles_suit(const DeviceWeight& weight, int m) {
  return m > kSkinnyRows && m <= 2 * kSkinnyRows && weight.rows >= kNarrow && weight.rows <= kTilesAlone;
}

inline void check_few(int m) {
  REPRISE_CHECK(m <= kMostNormedRows, "more rows than a small-m GEMM takes");
}

}  // namespace reprise::gpu::cuda::product
