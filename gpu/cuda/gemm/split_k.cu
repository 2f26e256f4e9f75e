// Split-K GEMM for prefill with few outputs (sm_90).
//
// Computes: y f32 += x W^T for bf16 x and W; each output is the sum of two partial sums, one per half of k.
//
// Chosen when: kAddF32, at most 1,024 outputs, outputs and columns multiples of 128.
//
// Mapping: for small m each block of a pair (a cluster) computes one half of k; they exchange partial sums
// through distributed shared memory, and each adds half of the tile's outputs to y. Tiles are 64x64, 128x64
// or 128x128 (rows by outputs), the smallest with which the grid runs in one wave. For larger m one block
// computes both halves of a 128x128 tile. A consumer warpgroup has 64 rows.
//
// Pipeline: pipeline.cuh with 5 to 10 stages. Weights of the first stages are loaded, and the others
// prefetched into L2, before the PDL wait, unless a kernel of the stream writes them.
//
// Bits: independent of m and of the tile. A half is one wgmma chain in ascending k; the addition of two
// halves is commutative.

#include "gpu/cuda/gemm/prefill_products.h"

#include "base/check.h"

#ifdef REPRISE_WARPGROUPS
#include <cooperative_groups.h>

#include "gpu/cuda/gemm/pipeline.cuh"
#include "gpu/cuda/memory/launch.cuh"
#endif

namespace reprise::gpu::cuda {

#ifdef REPRISE_WARPGROUPS
namespace {

/// kBlocksOfTile: 2 (one half of k each) or 1.
template <int kWarpgroups, int kOutputsOfTile, int kStagesOfRing, int kBlocksOfTile, int kRegistersOfThread>
struct SplitKTile {
  using Ring = StagePipeline<kWarpgroups, kOutputsOfTile, kStagesOfRing>;
  static constexpr int kRows = Ring::kRows;
  static constexpr int kOutputs = Ring::kOutputs;
  static constexpr int kSpread = kBlocksOfTile;
  static constexpr int kRegisters = kRegistersOfThread;
  static constexpr int kOwnBlocks = Ring::kBlocks / kSpread;  // blocks of 8 outputs that this block adds to y

  struct Shared {
    Ring ring;
    // partial sums received from the other block
    float4 others[kSpread == 2 ? kOwnBlocks : 1][Ring::kGroups * kGroupThreads];
  };
};

struct SplitKWork {
  int m;
  int outputs;
  int columns;
  int row_tiles;
  bool weights_are_constant;  // may be read before the PDL wait
};

/// A block's tile and range of k.
template <class Tile>
struct SplitKPosition {
  int half;  // half of k; 0 if the block has both
  int row;
  int output;
  int first_column;
  int stages;

  __device__ explicit SplitKPosition(const SplitKWork& work) {
    const int tile = static_cast<int>(blockIdx.x) / Tile::kSpread;
    half = Tile::kSpread == 2 ? rank_in_cluster() : 0;
    row = tile % work.row_tiles * Tile::kRows;
    output = tile / work.row_tiles * Tile::kOutputs;
    const int columns = work.columns / Tile::kSpread;
    first_column = half * columns;
    stages = columns / kPanelColumns;
  }
};

/// The producer thread. All consumers wait for it, so its loop computes nothing that could be computed
/// before.
template <class Tile>
__device__ __forceinline__ void load_stages(typename Tile::Ring& ring, const CUtensorMap& x,
                                            const CUtensorMap& weights, const SplitKWork& work,
                                            const SplitKPosition<Tile>& position) {
  using Ring = typename Tile::Ring;
  int ahead = 0;  // stages whose weights have been requested
  if (work.weights_are_constant) {
    for (; ahead < min(Ring::kStages, position.stages); ++ahead) {
      expect_bytes(ring.full[ahead], Ring::kStageBytes);
      load_box(weights, position.output, position.first_column + ahead * kPanelColumns,
               ring.weights_of(ahead), ring.full[ahead]);
    }
    // the rest, into L2
    for (int i = position.row == 0 ? ahead : position.stages; i < position.stages; ++i) {
      prefetch_box(weights, position.output, position.first_column + i * kPanelColumns);
    }
  }
  pdl_wait();
  pdl_launch_dependents();
  make_visible_to_tma();
  StagePosition<Ring::kStages> at;
  int column = position.first_column;
  for (int i = 0; i < position.stages; ++i, column += kPanelColumns) {
    Barrier& full = ring.full[at.stage];
    if (at.round > 0) ring.empty[at.stage].wait(at.round - 1);
    if (i >= ahead) {
      expect_bytes(full, Ring::kStageBytes);
      load_box(weights, position.output, column, ring.weights_of(at.stage), full);
    }
    load_box(x, position.row, column, ring.x_of(at.stage), full);
    at.advance();
  }
}

/// A lane's elements of kBlocks blocks of 8 outputs of y, as in C fragments: pairs of rows `row` and row + 8.
template <int kBlocks>
class LaneOutputs {
 public:
  __device__ LaneOutputs(float* y, const SplitKWork& work, int row, int first_output)
      : pairs_(y + static_cast<std::size_t>(row) * work.outputs + first_output +
               2 * (static_cast<int>(threadIdx.x) % 4)),
        below_(8 * static_cast<std::size_t>(work.outputs)),
        has_{row < work.m, row + 8 < work.m} {}
  __device__ __forceinline__ void read() {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const float2 upper = has_[0] ? *at(block) : float2{};
      const float2 lower = has_[1] ? *at(block, below_) : float2{};
      old_[block] = make_float4(upper.x, upper.y, lower.x, lower.y);
    }
  }
  __device__ __forceinline__ void add(int block, const float4& sum) const {
    const float4& old = old_[block];
    if (has_[0]) *at(block) = make_float2(old.x + sum.x, old.y + sum.y);
    if (has_[1]) *at(block, below_) = make_float2(old.z + sum.z, old.w + sum.w);
  }

 private:
  __device__ float2* at(int block, std::size_t offset = 0) const {
    return reinterpret_cast<float2*>(pairs_ + offset + 8 * block);
  }
  float* pairs_;
  std::size_t below_;
  bool has_[2];
  float4 old_[kBlocks];
};

__device__ __forceinline__ float4 sum_of(const float (&a)[4], const float4& b) {
  return make_float4(a[0] + b.x, a[1] + b.y, a[2] + b.z, a[3] + b.w);
}

/// For a block with one half of k, which adds half of the tile's outputs to y.
template <class Tile, class Reader>
__device__ __forceinline__ void multiply_one_half(typename Tile::Shared& shared, Reader& reader,
                                                  const SplitKWork& work,
                                                  const SplitKPosition<Tile>& position, float* y, int row) {
  const int thread = static_cast<int>(threadIdx.x);
  LaneOutputs<Tile::kOwnBlocks> outputs(y, work, row, position.output + position.half * 8 * Tile::kOwnBlocks);
  outputs.read();
  float sums[Tile::Ring::kBlocks][4];
  reader.multiply(position.stages, sums);
  reader.finish();
  settle(sums);
  const auto cluster = cooperative_groups::this_cluster();
  const auto other = static_cast<unsigned>(1 - position.half);
#pragma unroll
  for (int i = 0; i < Tile::kOwnBlocks; ++i) {
    float(&low)[4] = sums[i];
    float(&high)[4] = sums[Tile::kOwnBlocks + i];
#pragma unroll
    for (int j = 0; j < 4; ++j) {  // moves this block's outputs to the first half of the registers
      const float own = position.half == 0 ? low[j] : high[j];
      high[j] = position.half == 0 ? high[j] : low[j];
      low[j] = own;
    }
    *cluster.map_shared_rank(&shared.others[i][thread], other) =
        make_float4(high[0], high[1], high[2], high[3]);
  }
  cluster.sync();
#pragma unroll
  for (int i = 0; i < Tile::kOwnBlocks; ++i) outputs.add(i, sum_of(sums[i], shared.others[i][thread]));
}

/// For a block with both halves of k.
template <class Tile, class Reader>
__device__ __forceinline__ void multiply_both_halves(Reader& reader, const SplitKWork& work,
                                                     const SplitKPosition<Tile>& position, float* y,
                                                     int row) {
  float first[Tile::Ring::kBlocks][4];
  float second[Tile::Ring::kBlocks][4];
  reader.multiply(position.stages / 2, first);
  reader.multiply(position.stages / 2, second);
  reader.finish();
  settle(first);
  settle(second);
  constexpr int kTogether = 4;
#pragma unroll
  for (int block = 0; block < Tile::Ring::kBlocks; block += kTogether) {
    // keeps the compiler from hoisting later blocks' loads, for which there are no registers
    asm volatile("" ::: "memory");
    LaneOutputs<kTogether> outputs(y, work, row, position.output + 8 * block);
    outputs.read();
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const float(&other)[4] = second[block + i];
      outputs.add(i, sum_of(first[block + i], make_float4(other[0], other[1], other[2], other[3])));
    }
  }
}

template <class Tile>
__global__ void __maxnreg__(Tile::kRegisters)
    split_k_gemm(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weights,
                 SplitKWork work, float* y) {
  using Ring = typename Tile::Ring;
  extern __shared__ __align__(16) unsigned char split_k_memory[];
  auto& shared = aligned_in<typename Tile::Shared>(split_k_memory);
  const SplitKPosition<Tile> position(work);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    prefetch_descriptor(x);
    prefetch_descriptor(weights);
    shared.ring.init(1);
  }
  __syncthreads();
  if constexpr (Tile::kSpread == 2) wait_for_cluster();
  const int group = thread / kGroupThreads;
  if (group < Ring::kGroups) {
    pdl_wait();
    pdl_launch_dependents();
    const auto release = [](Barrier& empty) {
      if (threadIdx.x % 32 == 0) empty.arrive();
    };
    StageReader<Ring, decltype(release)> reader(shared.ring, group, release);
    const int row = position.row + 64 * group + 16 * (thread % kGroupThreads / 32) + thread % 32 / 4;
    if constexpr (Tile::kSpread == 2) {
      multiply_one_half<Tile>(shared, reader, work, position, y, row);
    } else {
      multiply_both_halves<Tile>(reader, work, position, y, row);
    }
  } else {
    if (thread % kGroupThreads < 32) {
      if (is_chosen_lane()) load_stages<Tile>(shared.ring, x, weights, work, position);
      __syncwarp();
    }
    if constexpr (Tile::kSpread == 2) cooperative_groups::this_cluster().sync();
  }
}

template <class Tile>
int blocks_of(int m, int outputs) {
  return (m + Tile::kRows - 1) / Tile::kRows * (outputs / Tile::kOutputs) * Tile::kSpread;
}

template <class Tile>
void launch_split_k(const Bf16* rows, const PrefillWeight& weight, int m, float* y, StreamHandle stream) {
  constexpr int kBytes = kAlignedBytes<typename Tile::Shared>;
  const SplitKWork work{.m = m,
                        .outputs = weight.outputs,
                        .columns = weight.columns,
                        .row_tiles = (m + Tile::kRows - 1) / Tile::kRows,
                        .weights_are_constant = weight.is_constant};
  allow_shared(split_k_gemm<Tile>, kBytes);
  launch_after(split_k_gemm<Tile>,
               {.blocks = dim3(static_cast<unsigned>(blocks_of<Tile>(m, weight.outputs))),
                .threads = Tile::Ring::kThreads,
                .shared_bytes = kBytes,
                .cluster = Tile::kSpread},
               stream, map_of(rows, m, weight.columns, Tile::kRows),
               map_of(weight.rows, weight.outputs, weight.columns, Tile::kOutputs), work, y);
}

using SmallSplitK = SplitKTile<1, 64, 10, 2, 80>;
using TallSplitK = SplitKTile<2, 64, 7, 2, 80>;
using LargeSplitK = SplitKTile<2, 128, 5, 2, 128>;
using WholeSplitK = SplitKTile<2, 128, 6, 1, 168>;

}  // namespace

bool can_use_split_k(int outputs, int columns) {
  constexpr int kMaxOutputs = 1024;  // cuBLASLt is faster above
  return outputs % WholeSplitK::kOutputs == 0 && outputs <= kMaxOutputs &&
         columns % (2 * kPanelColumns) == 0 && has_warpgroups() &&
         max_shared() >= kAlignedBytes<WholeSplitK::Shared>;
}

void add_split_k(const Bf16* x, int m, const PrefillWeight& weight, float* y, StreamHandle stream) {
  REPRISE_CHECK(m % kGrid == 0, "m is not a multiple of kGrid; pad the rows first");
  const int multiprocessors = multiprocessor_count();
  if (blocks_of<SmallSplitK>(m, weight.outputs) <= multiprocessors) {
    launch_split_k<SmallSplitK>(x, weight, m, y, stream);
  } else if (blocks_of<TallSplitK>(m, weight.outputs) <= multiprocessors) {
    launch_split_k<TallSplitK>(x, weight, m, y, stream);
  } else if (blocks_of<LargeSplitK>(m, weight.outputs) <= multiprocessors) {
    launch_split_k<LargeSplitK>(x, weight, m, y, stream);
  } else {
    launch_split_k<WholeSplitK>(x, weight, m, y, stream);
  }
}

#else

bool can_use_split_k(int, int) {
  return false;
}

void add_split_k(const Bf16*, int, const PrefillWeight&, float*, StreamHandle) {
  REPRISE_CHECK(false, "wgmma GEMMs were not compiled into this build");
}

#endif

}  // namespace reprise::gpu::cuda
