// Prefill GEMM with a gated epilogue (sm_90).
//
// Computes: y bf16 = act(factor * gate) * up, where gate | up = x W^T, bf16 x and W; bitwise as gate_rows()
// of the rounded GEMM.
//
// Chosen when: padded m <= 512, outputs a multiple of 16, columns a multiple of 8, at most 16 Mi weights
// (above, cuBLASLt is as fast), and PrefillGemm::admit() has found it bitwise identical to cuBLASLt.
//
// Mapping: persistent clusters walk tiles, rows first. A tile is 128 rows by 128 rows of W (64 gates and
// their 64 ups), or 64 by 64 if the large tiles would occupy less than half of the SMs. Two blocks of a
// cluster have adjacent row tiles and the same outputs; one loads the gates' weights, the other the ups', by
// TMA multicast to both.
//
// Pipeline: pipeline.cuh with 6 stages; a stage is released to both blocks. Weights of the first tile are
// loaded or prefetched into L2 before the PDL wait, unless a kernel of the stream writes them.
//
// Bits: an output is one wgmma chain in ascending k, for every m and tile.

#include "gpu/cuda/gemm/prefill_products.h"

#include <algorithm>

#include "base/check.h"

#ifdef REPRISE_WARPGROUPS
#include "gpu/cuda/gemm/pipeline.cuh"
#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/memory/launch.cuh"
#include "gpu/cuda/rows/activations.cuh"
#endif

namespace reprise::gpu::cuda {

#ifdef REPRISE_WARPGROUPS
namespace {

/// kMaxOfMultiprocessor: resident blocks per SM.
template <int kWarpgroups, int kOutputsOfTile, int kStagesOfRing, int kMaxOfMultiprocessor,
          int kRegistersOfThread>
struct GatedTile {
  using Ring = StagePipeline<kWarpgroups, kOutputsOfTile, kStagesOfRing>;
  static constexpr int kRows = Ring::kRows;
  static constexpr int kMade = Ring::kOutputs / 2;  // columns of y per tile
  static constexpr int kBlocksThatFit = kMaxOfMultiprocessor;
  static constexpr int kRegisters = kRegistersOfThread;
};
using WideGated = GatedTile<2, 128, 6, 1, 112>;
using SmallGated = GatedTile<1, 64, 6, 2, 80>;

struct GatedWork {
  int m;
  int outputs;  // columns of y
  int columns;
  bool weights_are_constant;  // may be read before the PDL wait
  int cluster;                // blocks of a cluster
  int row_clusters;           // row tiles / cluster, rounded up
  int tiles;                  // per cluster rank: row_clusters times the output tiles

  __device__ int stages() const { return (columns + kPanelColumns - 1) / kPanelColumns; }
};

/// A block's tiles in order, rows fastest.
template <class Tile>
struct TileOrder {
  int row_clusters;
  int count;  // tiles per cluster rank
  int size;   // blocks of the cluster
  int rank;

  __device__ explicit TileOrder(const GatedWork& work)
      : row_clusters(work.row_clusters), count(work.tiles), size(work.cluster), rank(rank_in_cluster()) {}
  __device__ int first() const { return cluster_index(); }
  __device__ int step() const { return cluster_count(); }
  __device__ int row_of(int tile) const { return (tile % row_clusters * size + rank) * Tile::kRows; }
  __device__ int output_of(int tile) const { return tile / row_clusters * Tile::kMade; }
};

/// Weight boxes that a block loads for a tile: gates and ups if it is alone, else one of them for both
/// blocks.
template <class Tile>
struct WeightPieces {
  static constexpr std::uint32_t kHalf = Tile::kMade * kStageRowBytes;  // bytes of half a stage's weights
  int gates;                                                            // first row of W
  int others;
  int rank;
  bool is_alone;

  __device__ WeightPieces(const GatedWork& work, const TileOrder<Tile>& order, int tile)
      : gates(order.output_of(tile)),
        others(work.outputs + gates),
        rank(order.rank),
        is_alone(order.size == 1) {}

  __device__ __forceinline__ void load(const CUtensorMap& weights, int column, std::uint32_t to,
                                       Barrier& full) const {
    if (is_alone) {
      load_box(weights, gates, column, to, full);
      load_box(weights, others, column, to + kHalf, full);
    } else {
      constexpr unsigned kBoth = 3;
      multicast_box(kBoth, weights, rank == 0 ? gates : others, column, to + rank * kHalf, full);
    }
  }
  __device__ __forceinline__ void prefetch(const CUtensorMap& weights, int column) const {
    if (is_alone || rank == 0) prefetch_box(weights, gates, column);
    if (is_alone || rank == 1) prefetch_box(weights, others, column);
  }
};

/// Prefetches into L2 the weights of the first tile that load_stages() does not load before the PDL wait.
/// Called by one thread.
template <class Tile>
__device__ __forceinline__ void prefetch_weights(const CUtensorMap& weights, const GatedWork& work,
                                                 const TileOrder<Tile>& order) {
  if (!work.weights_are_constant || order.first() >= order.count || work.row_clusters > 1) return;
  const WeightPieces<Tile> pieces(work, order, order.first());
  for (int column = Tile::Ring::kStages * kPanelColumns; column < work.columns; column += kPanelColumns) {
    pieces.prefetch(weights, column);
  }
}

/// The producer thread. All consumers wait for it, so its loop computes nothing that could be computed
/// before.
template <class Tile>
__device__ __forceinline__ void load_stages(typename Tile::Ring& ring, const CUtensorMap& x,
                                            const CUtensorMap& weights, const GatedWork& work,
                                            const TileOrder<Tile>& order) {
  using Ring = typename Tile::Ring;
  int ahead = 0;  // stages whose weights have been requested
  if (work.weights_are_constant && order.first() < order.count) {
    const WeightPieces<Tile> pieces(work, order, order.first());
    for (; ahead < min(Ring::kStages, work.stages()); ++ahead) {
      expect_bytes(ring.full[ahead], Ring::kStageBytes);
      pieces.load(weights, ahead * kPanelColumns, ring.weights_of(ahead), ring.full[ahead]);
    }
  }
  pdl_wait();
  pdl_launch_dependents();
  make_visible_to_tma();
  StagePosition<Ring::kStages> at;
  for (int tile = order.first(); tile < order.count; tile += order.step()) {
    const WeightPieces<Tile> pieces(work, order, tile);
    const int row = order.row_of(tile);
    for (int column = 0; column < work.columns; column += kPanelColumns) {
      Barrier& full = ring.full[at.stage];
      if (at.round > 0) ring.empty[at.stage].wait(at.round - 1);
      if (ahead > 0) {
        --ahead;
      } else {
        expect_bytes(full, Ring::kStageBytes);
        pieces.load(weights, column, ring.weights_of(at.stage), full);
      }
      load_box(x, row, column, ring.x_of(at.stage), full);
      at.advance();
    }
  }
  // Stay resident until the other block's last arrival at this block's barriers.
  for (int i = 0; i < Ring::kStages; ++i, at.advance()) {
    if (at.round > 0) ring.empty[at.stage].wait(at.round - 1);
  }
}

/// Transposes within a quad: each lane has a pair of bf16 of each of four blocks of 8 outputs; lane t gets
/// block t.
__device__ __forceinline__ uint4 gather_block(const std::uint32_t (&pairs)[4]) {
  const bool odd = threadIdx.x % 2 != 0;
  const bool upper = threadIdx.x / 2 % 2 != 0;
  const std::uint32_t first = __shfl_xor_sync(~0U, odd ? pairs[0] : pairs[1], 1);
  const std::uint32_t second = __shfl_xor_sync(~0U, odd ? pairs[2] : pairs[3], 1);
  // blocks `odd` and 2 + odd: the pairs of this lane and of its neighbor
  const uint2 low = odd ? make_uint2(first, pairs[1]) : make_uint2(pairs[0], first);
  const uint2 high = odd ? make_uint2(second, pairs[3]) : make_uint2(pairs[2], second);
  const std::uint32_t third = __shfl_xor_sync(~0U, upper ? low.x : high.x, 2);
  const std::uint32_t fourth = __shfl_xor_sync(~0U, upper ? low.y : high.y, 2);
  return upper ? make_uint4(third, fourth, high.x, high.y) : make_uint4(low.x, low.y, third, fourth);
}

/// Epilogue, bitwise as gate_rows(). A lane has pairs of `row` and of row + 8; the first half of the blocks
/// are gates.
template <int kBlocks>
__device__ __forceinline__ void put_gated(const GatedRows& to, const GatedWork& work, int row,
                                          int first_output, const float (&sums)[kBlocks][4]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const auto gated = [&](float gate, float other) {
    return gated_bf16(to.act, to.gate_factor * gate, other);
  };
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int own = row + 8 * half;
    Bf16* y = to.y + static_cast<std::size_t>(own) * work.outputs;
#pragma unroll
    for (int first = 0; first < kBlocks / 2; first += 4) {
      std::uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&gates)[4] = sums[first + i];
        const float(&others)[4] = sums[first + i + kBlocks / 2];
        const float2 gate = widen_pair(narrow(gates[2 * half], gates[2 * half + 1]));
        const float2 other = widen_pair(narrow(others[2 * half], others[2 * half + 1]));
        pairs[i] = narrow(gated(gate.x, other.x), gated(gate.y, other.y));
      }
      const uint4 eight = gather_block(pairs);
      const int output = first_output + (first + t) * 8;
      if (own < work.m && output < work.outputs) *reinterpret_cast<uint4*>(y + output) = eight;
    }
  }
}

template <class Tile>
__device__ __forceinline__ void multiply_tiles(typename Tile::Ring& ring, const GatedWork& work,
                                               const GatedRows& to, const TileOrder<Tile>& order, int group) {
  using Ring = typename Tile::Ring;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  const auto release = [&](Barrier& empty) {
    if (lane < order.size) arrive_in(lane, empty);
  };
  StageReader<Ring, decltype(release)> reader(ring, group, release);
  for (int tile = order.first(); tile < order.count; tile += order.step()) {
    float sums[Ring::kBlocks][4];
    reader.multiply(work.stages(), sums);
    reader.finish();
    settle(sums);
    put_gated(to, work, order.row_of(tile) + 64 * group + 16 * warp + lane / 4, order.output_of(tile), sums);
  }
}

template <class Tile>
__global__ void __maxnreg__(Tile::kRegisters)
    multiply_gated(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weights,
                   GatedWork work, GatedRows to) {
  using Ring = typename Tile::Ring;
  extern __shared__ __align__(16) unsigned char gated_memory[];
  auto& ring = aligned_in<Ring>(gated_memory);
  const TileOrder<Tile> order(work);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    prefetch_descriptor(x);
    prefetch_descriptor(weights);
    ring.init(order.size);
  }
  __syncthreads();
  if (order.size > 1) wait_for_cluster();
  const int group = thread / kGroupThreads;
  if (group < Ring::kGroups) {
    pdl_wait();
    pdl_launch_dependents();
    multiply_tiles<Tile>(ring, work, to, order, group);
  } else if (thread % kGroupThreads < 32) {
    if (is_chosen_lane()) load_stages<Tile>(ring, x, weights, work, order);
  } else if (thread % kGroupThreads < 64) {
    if (is_chosen_lane()) prefetch_weights<Tile>(weights, work, order);
  }
}

int tiles_of(int count, int size) {
  return (count + size - 1) / size;
}

template <class Tile>
void launch_gated(const Bf16* rows, const PrefillWeight& weight, int m, const GatedRows& to,
                  StreamHandle stream) {
  constexpr int kBytes = kAlignedBytes<typename Tile::Ring>;
  const int row_tiles = tiles_of(m, Tile::kRows);
  constexpr int kFewIdle = 9;  // from this many row tiles on, an idle block in the last pair costs little
  const int cluster = row_tiles % 2 == 0 || row_tiles >= kFewIdle ? 2 : 1;
  const int row_clusters = tiles_of(row_tiles, cluster);
  const int tiles = row_clusters * tiles_of(weight.outputs / 2, Tile::kMade);
  const GatedWork work{.m = m,
                       .outputs = weight.outputs / 2,
                       .columns = weight.columns,
                       .weights_are_constant = weight.is_constant,
                       .cluster = cluster,
                       .row_clusters = row_clusters,
                       .tiles = tiles};
  const int blocks = std::min(tiles, Tile::kBlocksThatFit * multiprocessor_count() / cluster) * cluster;
  allow_shared(multiply_gated<Tile>, kBytes);
  launch_after(multiply_gated<Tile>,
               {.blocks = dim3(static_cast<unsigned>(blocks)),
                .threads = Tile::Ring::kThreads,
                .shared_bytes = kBytes,
                .cluster = cluster},
               stream, map_of(rows, m, work.columns, Tile::kRows),
               map_of(weight.rows, weight.outputs, work.columns, Tile::kMade), work, to);
}

}  // namespace

bool can_use_gated_prefill(int outputs, int columns) {
  constexpr std::size_t kMaxElements = std::size_t{16} << 20;  // above, cuBLASLt is as fast or faster
  return outputs % 16 == 0 && columns % 8 == 0 &&
         static_cast<std::size_t>(outputs) * static_cast<std::size_t>(columns) <= kMaxElements &&
         has_warpgroups() && max_shared() >= kAlignedBytes<WideGated::Ring>;
}

void multiply_gated_prefill(const Bf16* x, int m, const PrefillWeight& weight, const GatedRows& to,
                            StreamHandle stream) {
  REPRISE_CHECK(m % kGrid == 0, "m is not a multiple of kGrid; pad the rows first");
  const int wide = tiles_of(m, WideGated::kRows) * tiles_of(weight.outputs / 2, WideGated::kMade);
  if (2 * wide >= multiprocessor_count()) {
    launch_gated<WideGated>(x, weight, m, to, stream);
  } else {
    launch_gated<SmallGated>(x, weight, m, to, stream);
  }
}

#else

bool can_use_gated_prefill(int, int) {
  return false;
}

void multiply_gated_prefill(const Bf16*, int, const PrefillWeight&, const GatedRows&, StreamHandle) {
  REPRISE_CHECK(false, "wgmma GEMMs were not compiled into this build");
}

#endif

}  // namespace reprise::gpu::cuda
