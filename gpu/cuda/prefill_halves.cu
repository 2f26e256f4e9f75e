// Products of a prefill with few outputs, in two halves of the columns. A tile of y is some rows by some outputs. Of few rows the
// halves of a tile are the two blocks of a cluster: each adds up half of the tile's outputs, which the other writes into its shared
// memory. Of many rows a block has one half after the other.
#include "gpu/cuda/prefill_products.h"

#include "base/check.h"

#ifdef REPRISE_WARPGROUPS
#include <cooperative_groups.h>

#include "gpu/cuda/launch.cuh"
#include "gpu/cuda/prefill_ring.cuh"
#endif

namespace reprise::gpu::cuda {

#ifdef REPRISE_WARPGROUPS
namespace {

/// kBlocksOfTile: two, each with a half of the columns, or one.
template <int kWarpgroups, int kOutputsOfTile, int kStagesOfRing, int kBlocksOfTile, int kRegistersOfThread>
struct HalvesTile {
  using Ring = StageRing<kWarpgroups, kOutputsOfTile, kStagesOfRing>;
  static constexpr int kRows = Ring::kRows;
  static constexpr int kOutputs = Ring::kOutputs;
  static constexpr int kSpread = kBlocksOfTile;
  static constexpr int kRegisters = kRegistersOfThread;
  static constexpr int kOwnBlocks = Ring::kBlocks / kSpread;  // of 8 outputs, that a block adds up

  struct Shared {
    Ring ring;
    // What a thread of the other block has of the outputs that this one adds up.
    float4 others[kSpread == 2 ? kOwnBlocks : 1][Ring::kGroups * kGroupThreads];
  };
};

/// The product for kernels.
struct HalvesWork {
  int m;
  int outputs;
  int columns;
  int row_tiles;
  bool weights_stay;  // and can be read before the kernel in front has ended
};

/// What a block has to do.
template <class Tile>
struct HalvesPlace {
  int half;  // the one it has, or 0
  int row;
  int output;
  int first_column;
  int stages;

  __device__ explicit HalvesPlace(const HalvesWork& work) {
    const int tile = static_cast<int>(blockIdx.x) / Tile::kSpread;
    half = Tile::kSpread == 2 ? rank_in_cluster() : 0;
    row = tile % work.row_tiles * Tile::kRows;
    output = tile / work.row_tiles * Tile::kOutputs;
    const int columns = work.columns / Tile::kSpread;
    first_column = half * columns;
    stages = columns / kPanelColumns;
  }
};

/// By one thread, which all wait for: nothing is computed in its loop that could be before.
template <class Tile>
__device__ __forceinline__ void bring_stages(typename Tile::Ring& ring, const CUtensorMap& x,
                                             const CUtensorMap& weights, const HalvesWork& work,
                                             const HalvesPlace<Tile>& place) {
  using Ring = typename Tile::Ring;
  int ahead = 0;  // stages whose weights are on their way
  if (work.weights_stay) {
    for (; ahead < min(Ring::kStages, place.stages); ++ahead) {
      expect_bytes(ring.there[ahead], Ring::kStageBytes);
      copy_rectangle(weights, place.output, place.first_column + ahead * kPanelColumns,
                     ring.weights_of(ahead), ring.there[ahead]);
    }
    // The rest as far as the cache that all blocks share.
    for (int i = place.row == 0 ? ahead : place.stages; i < place.stages; ++i) {
      ask_for_rectangle(weights, place.output, place.first_column + i * kPanelColumns);
    }
  }
  wait_for_earlier();
  let_next_begin();
  show_to_copies();
  RingPlace<Ring::kStages> at;
  int column = place.first_column;
  for (int i = 0; i < place.stages; ++i, column += kPanelColumns) {
    Barrier& there = ring.there[at.stage];
    if (at.round > 0) ring.read[at.stage].wait(at.round - 1);
    if (i >= ahead) {
      expect_bytes(there, Ring::kStageBytes);
      copy_rectangle(weights, place.output, column, ring.weights_of(at.stage), there);
    }
    copy_rectangle(x, place.row, column, ring.x_of(at.stage), there);
    at.advance();
  }
}

/// A lane's part of kBlocks blocks of 8 outputs of y: pairs of its row and of the one 8 below, as C fragments have them.
template <int kBlocks>
class LaneOutputs {
 public:
  __device__ LaneOutputs(float* y, const HalvesWork& work, int row, int first_output)
      : pairs_(y + static_cast<std::size_t>(row) * work.outputs + first_output +
               2 * (static_cast<int>(threadIdx.x) % 4)),
        below_(8 * static_cast<std::size_t>(work.outputs)),
        has_{row < work.m, row + 8 < work.m} {}
  /// What is there, to be added to.
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
  __device__ float2* at(int block, std::size_t further_on = 0) const {
    return reinterpret_cast<float2*>(pairs_ + further_on + 8 * block);
  }
  float* pairs_;
  std::size_t below_;
  bool has_[2];
  float4 old_[kBlocks];
};

/// Both halves of an output: it does not matter which is named first.
__device__ __forceinline__ float4 sum_of(const float (&a)[4], const float4& b) {
  return make_float4(a[0] + b.x, a[1] + b.y, a[2] + b.z, a[3] + b.w);
}

/// The block has one half, and adds up its own part of the outputs.
template <class Tile, class Reader>
__device__ __forceinline__ void multiply_one_half(typename Tile::Shared& shared, Reader& reader,
                                                  const HalvesWork& work, const HalvesPlace<Tile>& place,
                                                  float* y, int row) {
  const int thread = static_cast<int>(threadIdx.x);
  LaneOutputs<Tile::kOwnBlocks> outputs(y, work, row, place.output + place.half * 8 * Tile::kOwnBlocks);
  outputs.read();
  float sums[Tile::Ring::kBlocks][4];
  reader.multiply(place.stages, sums);
  reader.finish();
  settle(sums);
  const auto cluster = cooperative_groups::this_cluster();
  const auto other = static_cast<unsigned>(1 - place.half);
#pragma unroll
  for (int i = 0; i < Tile::kOwnBlocks; ++i) {
    float(&low)[4] = sums[i];
    float(&high)[4] = sums[Tile::kOwnBlocks + i];
#pragma unroll
    for (int j = 0; j < 4; ++j) {  // own ones into the first half of the registers
      const float own = place.half == 0 ? low[j] : high[j];
      high[j] = place.half == 0 ? high[j] : low[j];
      low[j] = own;
    }
    *cluster.map_shared_rank(&shared.others[i][thread], other) =
        make_float4(high[0], high[1], high[2], high[3]);
  }
  cluster.sync();
#pragma unroll
  for (int i = 0; i < Tile::kOwnBlocks; ++i) outputs.add(i, sum_of(sums[i], shared.others[i][thread]));
}

/// The block has both.
template <class Tile, class Reader>
__device__ __forceinline__ void multiply_both_halves(Reader& reader, const HalvesWork& work,
                                                     const HalvesPlace<Tile>& place, float* y, int row) {
  float first[Tile::Ring::kBlocks][4];
  float second[Tile::Ring::kBlocks][4];
  reader.multiply(place.stages / 2, first);
  reader.multiply(place.stages / 2, second);
  reader.finish();
  settle(first);
  settle(second);
  constexpr int kTogether = 4;
#pragma unroll
  for (int block = 0; block < Tile::Ring::kBlocks; block += kTogether) {
    asm volatile("" ::: "memory");  // not those of the next ones as well: there are no registers for them
    LaneOutputs<kTogether> outputs(y, work, row, place.output + 8 * block);
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
    add_halves(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weights,
               HalvesWork work, float* y) {
  using Ring = typename Tile::Ring;
  extern __shared__ __align__(16) unsigned char halves_memory[];
  auto& shared = aligned_in<typename Tile::Shared>(halves_memory);
  const HalvesPlace<Tile> place(work);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    ask_for_map(x);
    ask_for_map(weights);
    shared.ring.init(1);
  }
  __syncthreads();
  if constexpr (Tile::kSpread == 2) wait_for_cluster();
  const int group = thread / kGroupThreads;
  if (group < Ring::kGroups) {
    wait_for_earlier();
    let_next_begin();
    const auto give_back = [](Barrier& read) {
      if (threadIdx.x % 32 == 0) read.arrive();
    };
    RingReader<Ring, decltype(give_back)> reader(shared.ring, group, give_back);
    const int row = place.row + 64 * group + 16 * (thread % kGroupThreads / 32) + thread % 32 / 4;
    if constexpr (Tile::kSpread == 2) {
      multiply_one_half<Tile>(shared, reader, work, place, y, row);
    } else {
      multiply_both_halves<Tile>(reader, work, place, y, row);
    }
  } else {
    if (thread % kGroupThreads < 32) {
      if (is_chosen_lane()) bring_stages<Tile>(shared.ring, x, weights, work, place);
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
void launch_halves(const Bf16* rows, const PrefillWeight& weight, int m, float* y, StreamHandle stream) {
  constexpr int kBytes = kAlignedBytes<typename Tile::Shared>;
  const HalvesWork work{.m = m,
                        .outputs = weight.outputs,
                        .columns = weight.columns,
                        .row_tiles = (m + Tile::kRows - 1) / Tile::kRows,
                        .weights_stay = weight.stays};
  allow_shared(add_halves<Tile>, kBytes);
  launch_after(add_halves<Tile>,
               {.blocks = dim3(static_cast<unsigned>(blocks_of<Tile>(m, weight.outputs))),
                .threads = Tile::Ring::kThreads,
                .shared_bytes = kBytes,
                .cluster = Tile::kSpread},
               stream, map_of(rows, m, weight.columns, Tile::kRows),
               map_of(weight.rows, weight.outputs, weight.columns, Tile::kOutputs), work, y);
}

using SmallHalves = HalvesTile<1, 64, 10, 2, 80>;
using TallHalves = HalvesTile<2, 64, 7, 2, 80>;
using LargeHalves = HalvesTile<2, 128, 5, 2, 128>;
using WholeHalves = HalvesTile<2, 128, 6, 1, 168>;

}  // namespace

bool halved_prefill_suits(int outputs, int columns) {
  constexpr int kMostOutputs = 1024;  // cuBLASLt is faster where there are more
  return outputs % WholeHalves::kOutputs == 0 && outputs <= kMostOutputs &&
         columns % (2 * kPanelColumns) == 0 && has_warpgroups() &&
         most_shared() >= kAlignedBytes<WholeHalves::Shared>;
}

void add_halved_prefill(const Bf16* x, int m, const PrefillWeight& weight, float* y, StreamHandle stream) {
  REPRISE_CHECK(m % kGrid == 0, "m is not a multiple of kGrid; pad the rows first");
  const int multiprocessors = multiprocessor_count();
  // The smallest tiles of which all find a place at once.
  if (blocks_of<SmallHalves>(m, weight.outputs) <= multiprocessors) {
    launch_halves<SmallHalves>(x, weight, m, y, stream);
  } else if (blocks_of<TallHalves>(m, weight.outputs) <= multiprocessors) {
    launch_halves<TallHalves>(x, weight, m, y, stream);
  } else if (blocks_of<LargeHalves>(m, weight.outputs) <= multiprocessors) {
    launch_halves<LargeHalves>(x, weight, m, y, stream);
  } else {
    launch_halves<WholeHalves>(x, weight, m, y, stream);
  }
}

#else

bool halved_prefill_suits(int, int) {
  return false;
}

void add_halved_prefill(const Bf16*, int, const PrefillWeight&, float*, StreamHandle) {
  REPRISE_CHECK(false, "wgmma GEMMs were not compiled into this build");
}

#endif

}  // namespace reprise::gpu::cuda
