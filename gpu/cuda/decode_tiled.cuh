#pragma once
// Products of more than a few decoded rows, through shared memory; the order of additions is that of
// gpu/cuda/decode_product.cuh. Included by CUDA sources alone, a source for each format.
//
// A block makes 64 outputs for up to 8 * kRowTiles rows of x. Chunks of both come through a ring in shared memory, chain
// after chain; when a chain ends, its sum is added to those before. Of the eight warps, warp w has the outputs' tile w % 4
// and half w / 4 of the rows.
//
// Where there are too few outputs for that, a cluster of eight blocks has the chains, and each block adds up a share of
// the rows over all eight, whose sums the others write into its memory.
//
// The weights of the first chunks are asked for before the kernel in front has ended. Weights is how those of a format
// come:
//   kChunkBytes, kWarpBytes       of shared memory: of a chunk of 64 outputs; for each warp besides
//   kRun                          of its columns (gpu/cuda/decode_product.cuh)
//   kNeedsRowSums                 whether it wants the sums of x over each scale's columns besides
//   Weights(w, columns, block, output)
//   copy(to, chunk)               begins to, by all threads
//   part(at, own, chunk, tile, lane)    what a lane holds of it; `own` is the warp's memory
//   sums_of_row(x), multiply(sums, part, x[, sums of x])    of a tile of rows

#include <cooperative_groups.h>

#include "gpu/cuda/decode_outputs.cuh"
#include "gpu/cuda/decode_product.cuh"
#include "gpu/cuda/launch.cuh"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda::product {

// Chunks of rows of bf16 in shared memory, for products whose blocks share them: the order in which a block takes them, their
// way there, and how lanes read them.

inline constexpr int kTiledThreads = 256;

/// The chunks of a block in their order.
struct ChunkWalk {
  int chunk;
  int chain;

  __device__ bool ended(int chunks) const { return chunk >= chunks; }
  /// Whether the chunk is its chain's last.
  __device__ bool ends_chain(int chunks) const { return chunk + kChains >= chunks; }
  template <int kRanks>
  __device__ void advance(int chunks) {
    chunk += kChains;
    if (kRanks > 1 || chunk < chunks) return;
    ++chain;
    chunk = chain < kChains && chain < chunks ? chain : chunks;
  }
};

/// Rows of bf16 on their way into shared memory, a chunk at a time, by all threads: a thread has the same 16 bytes of some
/// of them. Rows that there are not become zeros.
template <int kCount>
class RowCopies {
  static constexpr int kRowsAtOnce = kTiledThreads / kUnits;
  static constexpr int kOwn = (kCount + kRowsAtOnce - 1) / kRowsAtOnce;
  static_assert(kCount % kRowsAtOnce == 0 || kOwn == 1);
  static_assert(kRowsAtOnce % 2 == 0, "places of rows at even distances are at even distances");

 public:
  /// `row_at(row)`: null where there is none; `any`: memory that can be read.
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
      copy_some(to + place_of(row_, unit()) + i * kRowsAtOnce * kRowBytes,
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
  int left_;  // columns from the thread's first on
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

/// A lane's part of a tile of rows of a chunk in shared memory.
template <int kRun>
__device__ __forceinline__ RowPart read_rows(const std::byte* rows, int tile, int lane) {
  const int row = 8 * tile + lane / 4;
  return collect_row<kRun>([&](int ahead) {
    const int k = place_in_chunk<kRun>(0, lane % 4) + ahead;
    return *reinterpret_cast<const Run<kRun>*>(rows + place_of(row, k / 8) + k % 8 * sizeof(Bf16));
  });
}

// The product.

inline constexpr int kTiles = 4;  // of outputs
inline constexpr int kTiledOutputs = kTiles * kOutputs;
inline constexpr int kTiledPitch = kTiledOutputs + 1;
inline constexpr int kEnoughTiles = 90;                  // blocks for nearly all multiprocessors
inline constexpr int kRowSumBytes = 4 * sizeof(float4);  // of a tile of rows: what each lane t needs

template <int kRowTiles, class Weights>
struct TiledMemory {
  static constexpr int kRows = 8 * kRowTiles;
  static constexpr int kStageBytes = Weights::kChunkBytes + kRows * kRowBytes;
  static constexpr int kStages = kRowTiles > 4 ? 5 : 7;
  static constexpr int kRing = kStages * kStageBytes;
  static constexpr int kWarps = kRing + kTiledThreads / 32 * Weights::kWarpBytes;
  static constexpr int kBytes = kWarps + (Weights::kNeedsRowSums ? kRowTiles * kRowSumBytes : 0);
  static_assert(kRing >= kRows * kTiledPitch * static_cast<int>(sizeof(float)), "the sums take its place");
};

/// The sums of x for the warps that share tiles of rows: each makes those of some.
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
/// Until the four warps of a half of the rows have come here.
__device__ __forceinline__ void wait_for_half(int half) {
  asm volatile("bar.sync %0, 128;" ::"r"(1 + half) : "memory");
}

/// A warp's share of a chunk: its 16 outputs by kOwn tiles of rows.
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

/// Where the sums of all chains stand in the block that adds up kShare rows of them: as lanes have them, sixteen bytes each, which
/// are rows r and r + 1, r even, of outputs g and g + 8 of a tile.
template <int kShare>
struct SharedSums {
  static constexpr int kBytes = kChains * kTiledOutputs * kShare * static_cast<int>(sizeof(float));

  /// In sixteens of bytes.
  __device__ static int place(int chain, int tile, int row, int g) {
    return ((chain * kTiles + tile) * (kShare / 2) + row / 2) * 8 + g;
  }
  /// Of one output, in floats.
  __device__ static int element(int chain, int row, int column) {
    return 4 * place(chain, column / kOutputs, row, column % 8) + column % kOutputs / 8 * 2 + row % 2;
  }
};

/// kRanks: blocks that share a sum, 1 or kChains.
template <template <class> class WeightsOf, int kRowTiles, int kRanks, class Where, class Output>
__global__ void __launch_bounds__(kTiledThreads, 2)
    tiled_product(const Bf16* x, Where where, int columns, Output output) {
  using Weights = WeightsOf<Output>;
  using Memory = TiledMemory<kRowTiles, Weights>;
  constexpr int kOwn = kRowTiles / 2;  // tiles of rows of a warp
  extern __shared__ __align__(128) std::byte memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int tile = warp % kTiles;
  const int first_tile = warp / kTiles * kOwn;  // of rows
  const int block = static_cast<int>(blockIdx.x) / kRanks;
  const int rank = static_cast<int>(blockIdx.x) % kRanks;
  const int chunks = (columns + kChunk - 1) / kChunk;
  if constexpr (Where::kKnownLate) wait_for_earlier();
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
  constexpr int kShare = Memory::kRows / kRanks;  // rows that this block puts
  const int own_row = first_row + rank * kShare;
  const int own_rows = min(kShare, m - own_row);
  ask_ahead<kTiledOutputs>(output, block);
  if constexpr (!Where::kKnownLate) wait_for_earlier();
  let_next_begin();
  ahead = begin;
#pragma unroll
  for (int i = 0; i < Memory::kStages - 1; ++i) {
    copy_x(ahead, i);
    ahead.advance<kRanks>(chunks);
  }
  begin_rows<kTiledThreads>(output, own_row, own_rows);

  auto* row_sums = reinterpret_cast<float4*>(memory + Memory::kWarps);  // [tiles of rows][4]
  float totals[kOwn][4] = {};
  float sums[kOwn][4] = {};
  int index = 0;
  for (ChunkWalk at = begin; !at.ended(chunks); ++index) {
    wait_for_copies<Memory::kStages - 2>();
    __syncthreads();  // the chunk is there, and nobody reads the one before any more
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
    __syncthreads();                                   // nobody reads the ring any more
    auto* partial = reinterpret_cast<float*>(memory);  // [rows][outputs]
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
      const int row = 8 * (first_tile + i) + lane % 4 * 2;  // and the next
      float4* place = sums_of_chains + Sums::place(rank, tile, row % kShare, lane / 4);
      *cluster.map_shared_rank(place, row / kShare) =
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

/// `tiles`: of rows. kRanks above 1 for one weight alone: a cluster ends together.
template <template <class> class WeightsOf, int kRowTiles, int kRanks, class Where, class Output>
void launch_tiled_at(const Bf16* x, const Where& where, int tiles, const DeviceWeight& weight,
                     const Output& output, StreamHandle stream) {
  using Memory = TiledMemory<kRowTiles, WeightsOf<Output>>;
  const auto kernel = tiled_product<WeightsOf, kRowTiles, kRanks, Where, Output>;
  constexpr int kBytes = Memory::kBytes + (kRanks > 1 ? SharedSums<Memory::kRows / kRanks>::kBytes : 0);
  static_assert(kBytes <= kLeastShared);
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

/// Whether tiles are the way to multiply m rows: there are enough outputs for all multiprocessors, or else clusters of blocks
/// share a sum, from compute capability 9.0 on. Clusters wait for each other: few rows are sooner done twice by skinny
/// products, and those with a gate have none.
inline bool tiles_suit_to(const DeviceWeight& weight, int m, bool gated) {
  constexpr int kTwice = 2 * kSkinnyRows;
  constexpr int kMostGated = 64;
  if (m <= kSkinnyRows) return false;
  if (has_enough_outputs(weight)) return true;
  return is_hopper_or_later() && m > (gated ? kMostGated : kTwice);
}

}  // namespace reprise::gpu::cuda::product
