#pragma once
// Tiled GEMM for decode.
//
// Computes: y = x W^T for bf16 x [m, columns], W in any format, f32 accumulators, epilogues of
// decode_outputs.cuh.
//
// Chosen when: m > 8 and at least 5,760 outputs, or m > 16 (m > 64 with a gate) from compute capability 9.0
// on; also grouped GEMMs of experts in tiles of 64 rows. Except where small_m.cuh has blocks of 16 rows.
//
// Mapping: a block of 8 warps computes 64 outputs for 8 * kRowTiles rows; warp w has output tile w % 4 and
// half w / 4 of the rows. With fewer than 5,760 outputs and no gate, a cluster of 8 blocks splits k: block c
// computes chain c, partial sums are exchanged through distributed shared memory, and each block reduces 1/8
// of the rows.
//
// Pipeline: chunks of W and x pass through a cp.async ring of 5 or 7 stages, one block barrier per chunk.
// Weights of the first stages are loaded before the PDL wait. A block computes its chains in turn.
//
// Bits: those of decode_product.cuh.
//
// Weights loads a format:
//   kChunkBytes, kWarpBytes       shared memory: of a chunk of 64 outputs; extra per warp
//   kRun                          run length (decode_product.cuh)
//   kNeedsRowSums                 multiply() needs the sums of x over the columns of each scale
//   Weights(w, columns, block, output)
//   copy(to, chunk)               starts the copy; called by all threads
//   part(at, own, chunk, tile, lane)    a lane's fragment; `own` is the warp's extra memory
//   sums_of_row(x), multiply(sums, part, x[, sums of x])    for one row tile

#include <cooperative_groups.h>

#include "gpu/cuda/gemm/decode_outputs.cuh"
#include "gpu/cuda/gemm/decode_product.cuh"
#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/memory/launch.cuh"

namespace reprise::gpu::cuda::product {

// -- chunks of bf16 rows in shared memory

inline constexpr int kTiledThreads = 256;

/// Iterates over a block's chunks, chain by chain.
struct ChunkWalk {
  int chunk;
  int chain;

  __device__ bool ended(int chunks) const { return chunk >= chunks; }
  __device__ bool ends_chain(int chunks) const { return chunk + kChains >= chunks; }
  template <int kRanks>
  __device__ void advance(int chunks) {
    chunk += kChains;
    if (kRanks > 1 || chunk < chunks) return;
    ++chain;
    chunk = chain < kChains && chain < chunks ? chain : chunks;
  }
};

/// Copies chunks of bf16 rows to shared memory with all threads; a thread copies the same 16-byte unit of
/// kOwn rows. Missing rows become zero.
template <int kCount>
class RowCopies {
  static constexpr int kRowsAtOnce = kTiledThreads / kUnits;
  static constexpr int kOwn = (kCount + kRowsAtOnce - 1) / kRowsAtOnce;
  static_assert(kCount % kRowsAtOnce == 0 || kOwn == 1);
  static_assert(kRowsAtOnce % 2 == 0, "unit_offset() is linear in steps of an even number of rows");

 public:
  /// row_at(row) returns null for a missing row; `any` is readable memory.
  template <class RowAt>
  __device__ RowCopies(const RowAt& row_at, const Bf16* any, int columns)
      : row_(static_cast<int>(threadIdx.x) / kUnits), left_(columns - unit() * 8) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const Bf16* row = has_share() ? row_at(row_ + i * kRowsAtOnce) : nullptr;
      bytes_[i] = row == nullptr ? 0 : 16;
      from_[i] = row == nullptr ? any : row + unit() * 8;
    }
  }
  __device__ void copy(std::uint32_t to, int chunk) const {
    if (!has_share()) return;
    const bool present = chunk * kChunk < left_;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      copy_some(to + unit_offset(row_, unit()) + i * kRowsAtOnce * kRowBytes,
                from_[i] + (present && bytes_[i] != 0 ? chunk * kChunk : 0), present ? bytes_[i] : 0);
    }
  }

 private:
  __device__ static int unit() {
    return static_cast<int>(threadIdx.x) % kUnits;
  }
  __device__ bool has_share() const {
    return kCount % kRowsAtOnce == 0 || row_ < kCount;
  }

  int row_;
  int left_;  // columns from the thread's first one to the end
  int bytes_[kOwn];
  const Bf16* from_[kOwn];
};

struct RowsOfX {
  const Bf16* x;
  RowTile tile;
  int columns;
  __device__ const Bf16* operator()(int row) const {
    return tile.has(row) ? x + tile.row_of_x(row) * columns : nullptr;
  }
};

/// Reads a lane's fragment of row tile `tile` of a chunk.
template <int kRun>
__device__ __forceinline__ RowPart read_rows(const std::byte* rows, int tile, int lane) {
  const int row = 8 * tile + lane / 4;
  return collect_row<kRun>([&](int ahead) {
    const int k = k_in_chunk<kRun>(0, lane % 4) + ahead;
    return *reinterpret_cast<const Run<kRun>*>(rows + unit_offset(row, k / 8) + k % 8 * sizeof(Bf16));
  });
}

// -- the GEMM

inline constexpr int kTiles = 4;  // output tiles
inline constexpr int kTiledOutputs = kTiles * kOutputs;
inline constexpr int kTiledPitch = kTiledOutputs + 1;
inline constexpr int kEnoughTiles = 90;                  // blocks that occupy nearly all of an H200's 132 SMs
inline constexpr int kRowSumBytes = 4 * sizeof(float4);  // per row tile: one float4 per lane t

template <int kRowTiles, class Weights>
struct TiledMemory {
  static constexpr int kRows = 8 * kRowTiles;
  static constexpr int kStageBytes = Weights::kChunkBytes + kRows * kRowBytes;
  static constexpr int kStages = kRowTiles > 4 ? 5 : 7;
  static constexpr int kRing = kStages * kStageBytes;
  static constexpr int kWarps = kRing + kTiledThreads / 32 * Weights::kWarpBytes;
  static constexpr int kBytes = kWarps + (Weights::kNeedsRowSums ? kRowTiles * kRowSumBytes : 0);
  static_assert(kRing >= kRows * kTiledPitch * static_cast<int>(sizeof(float)),
                "the partial sums do not fit the memory of the pipeline stages");
};

/// Computes the sums of x, divided among the four warps that share row tiles.
template <class Weights, int kOwn>
__device__ __forceinline__ void put_row_sums(const std::byte* rows, int first_tile, int output_tile,
                                             float4* to, int lane) {
#pragma unroll
  for (int i = 0; i < (kOwn + kTiles - 1) / kTiles; ++i) {
    const int tile = kTiles * i + output_tile;
    if (tile >= kOwn) break;
    const float4 sums = Weights::sums_of_row(read_rows<Weights::kRun>(rows, first_tile + tile, lane));
    if (lane < 4) to[4 * (first_tile + tile) + lane] = sums;
  }
}
/// Barrier of the four warps of one half of the rows.
__device__ __forceinline__ void wait_for_half(int half) {
  asm volatile("bar.sync %0, 128;" ::"r"(1 + half) : "memory");
}

/// Multiplies a warp's 16 outputs by its kOwn row tiles for one chunk.
template <class Weights, int kOwn, class Part>
__device__ __forceinline__ void multiply_stage(float (&sums)[kOwn][4], const Part& w, const std::byte* rows,
                                               int first_tile, const float4* row_sums, int lane) {
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const RowPart x = read_rows<Weights::kRun>(rows, first_tile + i, lane);
    if constexpr (Weights::kNeedsRowSums) {
      Weights::multiply(sums[i], w, x, row_sums[4 * (first_tile + i) + lane % 4]);
    } else {
      Weights::multiply(sums[i], w, x);
    }
  }
}

/// Layout of the received partial sums: one float4 per lane, rows r and r + 1 (r even) of outputs g and g + 8
/// of a tile.
template <int kShare>
struct SharedSums {
  static constexpr int kBytes = kChains * kTiledOutputs * kShare * static_cast<int>(sizeof(float));

  __device__ static int index_of(int chain, int tile, int row, int g) {
    return ((chain * kTiles + tile) * (kShare / 2) + row / 2) * 8 + g;
  }
  /// Offset of one output, in floats.
  __device__ static int element(int chain, int row, int column) {
    return 4 * index_of(chain, column / kOutputs, row, column % 8) + column % kOutputs / 8 * 2 + row % 2;
  }
};

/// kRanks: blocks that split k, 1 or kChains.
template <template <class> class WeightsOf, int kRowTiles, int kRanks, class Where, class Output>
__global__ void __launch_bounds__(kTiledThreads, 2)
    tiled_gemm(const Bf16* x, Where where, int columns, Output output) {
  using Weights = WeightsOf<Output>;
  using Memory = TiledMemory<kRowTiles, Weights>;
  constexpr int kOwn = kRowTiles / 2;  // row tiles of a warp
  extern __shared__ __align__(128) std::byte memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int tile = warp % kTiles;
  const int first_tile = warp / kTiles * kOwn;  // row tile
  const int block = static_cast<int>(blockIdx.x) / kRanks;
  const int rank = static_cast<int>(blockIdx.x) % kRanks;
  const int chunks = (columns + kChunk - 1) / kChunk;
  if constexpr (Where::kKnownLate) pdl_wait();
  const RowTile where_rows = where.at(static_cast<int>(blockIdx.y), Memory::kRows);
  if (where_rows.first >= where_rows.end) return;
  const int first_row = where_rows.first;
  const int m = where_rows.end;
  const Weights weights(where_rows.w, columns, block, output);
  const RowCopies<Memory::kRows> rows(RowsOfX{x, where_rows, columns}, x, columns);
  const std::uint32_t ring = shared_address(memory);
  const auto stage_at = [&](int index) { return ring + index % Memory::kStages * Memory::kStageBytes; };
  const auto copy_weights = [&](const ChunkWalk& at, int index) {
    if (!at.ended(chunks)) weights.copy(stage_at(index), at.chunk);
  };
  const auto copy_x = [&](const ChunkWalk& at, int index) {
    if (!at.ended(chunks)) rows.copy(stage_at(index) + Weights::kChunkBytes, at.chunk);
    end_copy_group();
  };

#if __CUDA_ARCH__ >= 900
  if constexpr (kRanks > 1) cooperative_groups::this_cluster().barrier_arrive();
#endif
  const ChunkWalk begin{.chunk = rank, .chain = rank};
  ChunkWalk ahead = begin;
#pragma unroll
  for (int i = 0; i < Memory::kStages - 1; ++i) {
    copy_weights(ahead, i);
    ahead.advance<kRanks>(chunks);
  }
  constexpr int kShare = Memory::kRows / kRanks;  // rows that this block stores
  const int own_row = first_row + rank * kShare;
  const int own_rows = min(kShare, m - own_row);
  prefetch_constants<kTiledOutputs>(output, block);
  if constexpr (!Where::kKnownLate) pdl_wait();
  pdl_launch_dependents();
  ahead = begin;
#pragma unroll
  for (int i = 0; i < Memory::kStages - 1; ++i) {
    copy_x(ahead, i);
    ahead.advance<kRanks>(chunks);
  }
  begin_rows<kTiledThreads>(output, own_row, own_rows);

  auto* row_sums = reinterpret_cast<float4*>(memory + Memory::kWarps);  // [row tiles][4]
  float totals[kOwn][4] = {};
  float sums[kOwn][4] = {};
  int index = 0;
  for (ChunkWalk at = begin; !at.ended(chunks); ++index) {
    wait_for_copies<Memory::kStages - 2>();
    __syncthreads();  // the chunk has arrived, and no warp reads the previous one
    copy_weights(ahead, index + Memory::kStages - 1);
    copy_x(ahead, index + Memory::kStages - 1);
    ahead.advance<kRanks>(chunks);
    const std::byte* stage = memory + index % Memory::kStages * Memory::kStageBytes;
    const std::byte* stage_rows = stage + Weights::kChunkBytes;
    if constexpr (Weights::kNeedsRowSums) {
      put_row_sums<Weights, kOwn>(stage_rows, first_tile, tile, row_sums, lane);
    }
    const auto w =
        weights.part(stage, memory + Memory::kRing + warp * Weights::kWarpBytes, at.chunk, tile, lane);
    if constexpr (Weights::kNeedsRowSums) wait_for_half(warp / kTiles);
    multiply_stage<Weights, kOwn>(sums, w, stage_rows, first_tile, row_sums, lane);
    if (at.ends_chain(chunks)) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          totals[i][j] += sums[i][j];
          sums[i][j] = 0;
        }
      }
    }
    at.advance<kRanks>(chunks);
  }

  if constexpr (kRanks == 1) {
    wait_for_copies<0>();
    __syncthreads();  // no warp reads the ring
    auto* partial = reinterpret_cast<float*>(memory);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      put_sums<kTiledPitch>(totals[i], partial + 8 * (first_tile + i) * kTiledPitch + kOutputs * tile, lane);
    }
    __syncthreads();
    output.template put_block<kTiledOutputs, kTiledThreads>(
        block, own_row, own_rows, [&](int row, int column) { return partial[row * kTiledPitch + column]; });
  } else {
#if __CUDA_ARCH__ >= 900
    using Sums = SharedSums<kShare>;
    auto* sums_of_chains = reinterpret_cast<float4*>(memory + Memory::kBytes);
    const auto cluster = cooperative_groups::this_cluster();
    cluster.barrier_wait();
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int row = 8 * (first_tile + i) + lane % 4 * 2;  // this and the next row
      float4* index_of = sums_of_chains + Sums::index_of(rank, tile, row % kShare, lane / 4);
      *cluster.map_shared_rank(index_of, row / kShare) =
          make_float4(totals[i][0], totals[i][1], totals[i][2], totals[i][3]);
    }
    cluster.sync();
    const auto* received = reinterpret_cast<const float*>(sums_of_chains);
    output.template put_block<kTiledOutputs, kTiledThreads>(
        block, own_row, own_rows, [&](int row, int column) {
          float sum = 0;
#pragma unroll
          for (int chain = 0; chain < kChains; ++chain) sum += received[Sums::element(chain, row, column)];
          return sum;
        });
#endif
  }
}

/// `tiles`: row tiles. kRanks above 1 needs a single weight: all blocks of a cluster must take the same path.
template <template <class> class WeightsOf, int kRowTiles, int kRanks, class Where, class Output>
void launch_tiled_at(const Bf16* x, const Where& where, int tiles, const DeviceWeight& weight,
                     const Output& output, StreamHandle stream) {
  using Memory = TiledMemory<kRowTiles, WeightsOf<Output>>;
  const auto kernel = tiled_gemm<WeightsOf, kRowTiles, kRanks, Where, Output>;
  constexpr int kBytes = Memory::kBytes + (kRanks > 1 ? SharedSums<Memory::kRows / kRanks>::kBytes : 0);
  static_assert(kBytes <= kMinShared);
  allow_shared(kernel, kBytes);
  const LaunchShape shape{.blocks = dim3((weight.rows + kTiledOutputs - 1) / kTiledOutputs * kRanks, tiles),
                          .threads = kTiledThreads,
                          .shared_bytes = kBytes,
                          .cluster = kRanks};
  launch_after(kernel, shape, stream, x, where, weight.columns, output);
}

template <template <class> class WeightsOf, int kRowTiles, int kRanks, class Output>
void launch_tiled(const Bf16* x, int m, const DeviceWeight& weight, const Output& output,
                  StreamHandle stream) {
  constexpr int kRows = 8 * kRowTiles;
  launch_tiled_at<WeightsOf, kRowTiles, kRanks>(x, OneWeight{static_cast<const std::byte*>(weight.data), m},
                                                (m + kRows - 1) / kRows, weight, output, stream);
}

inline bool has_enough_outputs(const DeviceWeight& weight) {
  return weight.rows >= kEnoughTiles * kTiledOutputs;
}

/// Returns whether the tiled GEMM should be used: with enough outputs for all SMs, else with clusters.
/// Clusters synchronize, so for few rows two passes of the small-m kernel are faster; with a gate there are
/// no clusters.
inline bool can_use_tiled_to(const DeviceWeight& weight, int m, bool gated) {
  constexpr int kTwice = 2 * kSmallMRows;
  constexpr int kMaxGated = 64;
  if (m <= kSmallMRows) return false;
  if (has_enough_outputs(weight)) return true;
  return is_hopper_or_later() && m > (gated ? kMaxGated : kTwice);
}

}  // namespace reprise::gpu::cuda::product
