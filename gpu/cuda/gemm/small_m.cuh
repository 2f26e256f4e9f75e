#pragma once
// Small-m GEMM for decode.
//
// Computes: y = x W^T for bf16 x [m, columns] or f32 rows with a fused RMSNorm, W in any format, f32
// accumulators, epilogues of decode_outputs.cuh.
//
// Chosen when: m <= 8; 9 to 16 rows and 3,072 to 8,448 outputs (bf16 weights, blocks of 16 rows); or fewer
// than 5,760 outputs and m <= 16 (m <= 64 with a gate, any m before compute capability 9.0). Also grouped
// GEMMs of experts in tiles of 8 rows.
//
// Mapping: grid (outputs / Ring::kOutputs, row tiles of 8 or 16). Warp w of 8 computes chain w of the block's
// 8, 16 or 32 outputs (split-K inside the block); enough blocks for every SM of an H200 (132). A weight is
// read once per row tile.
//
// Pipeline: each warp fills its own ring of weight chunks before the PDL wait. x is read from global memory.
// The chains are reduced through shared memory.
//
// Bits: those of decode_product.cuh.
//
// A Ring loads the weights of a format:
//   kOutputs, kWarpBytes, kDepth    outputs of a block; shared memory of a warp, bytes; chunks in flight
//   kTogether                       min blocks per SM
//   kPartsAhead                     chunks of x that a warp reads at once
//   kRun                            run length (decode_product.cuh)
//   Ring(memory, w, columns, block, output)
//   begin_load(index, chunk, chunks)     starts to load `chunk` into ring slot `index`; past the end: nothing
//   prepare(x)                           converts a fragment of x once for all output tiles
//   multiply(sums, index, chunk, tile, lane, prepared)

#include <type_traits>

#include "base/check.h"
#include "gpu/cuda/gemm/decode_outputs.cuh"
#include "gpu/cuda/gemm/decode_product.cuh"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/memory/launch.cuh"

namespace reprise::gpu::cuda::product {

inline constexpr int kSmallMThreads = kChains * 32;
inline constexpr int kWide = 6144;        // min outputs for blocks of 32
inline constexpr int kNarrow = 3072;      // min outputs for blocks of 16
inline constexpr int kTilesAlone = 8448;  // outputs with one tile of 64 per SM of an H200

/// Source of x: bf16 rows, or f32 rows to normalize.
struct PlainRows {
  const Bf16* x;
};
struct RowsToNorm : NormedRows {
  explicit RowsToNorm(const NormedRows& rows) : NormedRows(rows) {}
};

/// Returns 1 / RMS of the block's row g (unspecified from row m on). All threads must call it.
__device__ __forceinline__ float scale_of_row(const RowsToNorm& rows, int m, int columns, int chain,
                                              int lane) {
  __shared__ float squares[kChains][kSmallMRows];
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

/// Constants by row tiles of a block.
template <class Ring, int kRowTiles>
struct SmallMShape {
  static constexpr int kRows = kSmallMRows * kRowTiles;
  static constexpr int kTogether = kRowTiles == 1 ? Ring::kTogether : 2;
  static constexpr int kPartsAhead = kRowTiles == 1 ? Ring::kPartsAhead : 2;
  static constexpr int kOutputTiles = (Ring::kOutputs + kOutputs - 1) / kOutputs;
  static constexpr int kPitch = kOutputTiles * kOutputs + 1;

  /// Buffer for a warp's sums: separate, or its ring once it has been read.
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

/// RowsToNorm requires at most 8 rows and one weight.
template <class Ring, int kRowTiles, class Rows, class Where, class Output>
__global__ void __launch_bounds__(kSmallMThreads, SmallMShape<Ring, kRowTiles>::kTogether)
    small_m_gemm(Rows rows, Where where, int columns, Output output) {
  using Shape = SmallMShape<Ring, kRowTiles>;
  constexpr bool kNormed = std::is_same_v<Rows, RowsToNorm>;
  static_assert(!kNormed || kRowTiles == 1);
  extern __shared__ __align__(128) std::byte memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;  // row of W and of x in a tile
  const int t = lane % 4;
  const int block = static_cast<int>(blockIdx.x);
  const int chunks = (columns + kChunk - 1) / kChunk;

  if constexpr (Where::kKnownLate) pdl_wait();
  const RowTile tile = where.at(static_cast<int>(blockIdx.y), Shape::kRows);
  if (tile.first >= tile.end) return;
  Ring ring(memory + warp * Ring::kWarpBytes, tile.w, columns, block, output);
#pragma unroll
  for (int i = 0; i < Ring::kDepth; ++i) ring.begin_load(i, warp + i * kChains, chunks);
  if constexpr (kNormed) {
    for (int i = static_cast<int>(threadIdx.x) * 32; i < columns; i += kSmallMThreads * 32) {
      prefetch_line(rows.norm.weight + i);
    }
  }
  const int block_rows = min(Shape::kRows, tile.end - tile.first);
  prefetch_constants<Ring::kOutputs>(output, block);

  if constexpr (!Where::kKnownLate) pdl_wait();
  pdl_launch_dependents();
  begin_rows<kSmallMThreads>(output, tile.first, block_rows);
  bool has_row[kRowTiles];
  decltype(rows.x) at[kRowTiles];  // next element of each of the lane's rows
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
    has_row[i] = tile.has(kSmallMRows * i + g);
    at[i] = rows.x + (has_row[i] ? tile.row_of_x(kSmallMRows * i + g) * columns : 0);
  }
  [[maybe_unused]] const auto* row = at[0];
  float scale = 0;
  bool keeps = false;  // this block stores the normalized rows
  if constexpr (kNormed) {
    scale = scale_of_row(rows, tile.end, columns, warp, lane);
    keeps = rows.kept != nullptr && block == 0;
  }
  int k = warp * kChunk + k_in_chunk<Ring::kRun>(0, t);
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
    RowPart ahead[Shape::kPartsAhead][kRowTiles];  // independent loads
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
          sums[o][i], Shape::sums_of(memory, warp) + kSmallMRows * i * Shape::kPitch + kOutputs * o, lane);
    }
  }
  __syncthreads();
  output.template put_block<Ring::kOutputs, kSmallMThreads>(
      block, tile.first, block_rows, [&](int of_row, int column) {
        float sum = 0;
#pragma unroll
        for (int chain = 0; chain < kChains; ++chain) {
          sum += Shape::sums_of(memory, chain)[of_row * Shape::kPitch + column];
        }
        return sum;
      });
}

/// `tiles`: row tiles of 8 * kRowTiles rows.
template <class Ring, int kRowTiles = 1, class Rows, class Where, class Output>
void launch_small_m_at(const Rows& rows, const Where& where, int tiles, const DeviceWeight& weight,
                       const Output& output, StreamHandle stream) {
  constexpr int kBytes = kChains * Ring::kWarpBytes;
  const auto kernel = small_m_gemm<Ring, kRowTiles, Rows, Where, Output>;
  static_assert(kBytes <= kMinShared);
  allow_shared(kernel, kBytes);
  const LaunchShape shape{.blocks = dim3((weight.rows + Ring::kOutputs - 1) / Ring::kOutputs, tiles),
                          .threads = kSmallMThreads,
                          .shared_bytes = kBytes};
  launch_after(kernel, shape, stream, rows, where, weight.columns, output);
}

template <class Ring, int kRowTiles = 1, class Rows, class Output>
void launch_small_m(const Rows& rows, int m, const DeviceWeight& weight, const Output& output,
                    StreamHandle stream) {
  constexpr int kRows = kRowTiles * kSmallMRows;
  launch_small_m_at<Ring, kRowTiles>(rows, OneWeight{static_cast<const std::byte*>(weight.data), m},
                                     (m + kRows - 1) / kRows, weight, output, stream);
}

/// Selects the outputs per block from weight.rows, so that all SMs have work.
template <template <int, class> class Ring, class Rows, class Output>
void launch_small_m_for(const Rows& rows, int m, const DeviceWeight& weight, const Output& output,
                        StreamHandle stream) {
  if (weight.rows >= kWide) {
    launch_small_m<Ring<32, Output>>(rows, m, weight, output, stream);
  } else if (weight.rows >= kNarrow) {
    launch_small_m<Ring<16, Output>>(rows, m, weight, output, stream);
  } else {
    launch_small_m<Ring<8, Output>>(rows, m, weight, output, stream);
  }
}

/// Returns whether blocks of 16 rows should be used: enough outputs for all SMs, but too few for the tiled
/// GEMM, which would have one block per SM and could not hide its load latency.
inline bool can_use_two_tiled(const DeviceWeight& weight, int m) {
  return m > kSmallMRows && m <= 2 * kSmallMRows && weight.rows >= kNarrow && weight.rows <= kTilesAlone;
}

inline void check_few(int m) {
  REPRISE_CHECK(m <= kMaxNormedRows, "more rows than a small-m GEMM takes");
}

}  // namespace reprise::gpu::cuda::product
