#pragma once
// Stage pipeline of the wgmma prefill GEMMs (sm_90a), with TMA and cluster helpers. One producer thread loads
// stages of 64 columns of x and W by TMA; each consumer warpgroup multiplies 64 rows and releases the stages.
// A stage takes about a microsecond to arrive from L2, in which a block multiplies several, so a pipeline is
// as deep as shared memory allows.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>

#include "gpu/cuda/gemm/wgmma.cuh"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

// -- TMA and clusters. A box is some rows of 64 bf16, stored as a panel (wgmma.cuh). Elements outside the
// matrix become zero and count as transferred bytes.

/// Returns the tensor map of a bf16 matrix [rows, columns] for boxes of box_rows rows. Requires: columns are
/// a multiple of 8, box_rows <= 256. Throws std::runtime_error.
inline CUtensorMap map_of(const Bf16* matrix, int rows, int columns, int box_rows) {
  using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                              const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  static const Encode encode = [] {
    constexpr unsigned kSince = 12000;  // driver version
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kSince, cudaEnableDefault,
                                           &result),
          "cudaGetDriverEntryPointByVersion");
    return result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(found) : nullptr;
  }();
  if (encode == nullptr) throw std::runtime_error("the driver has no cuTensorMapEncodeTiled");
  CUtensorMap map{};
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t row_bytes[1] = {static_cast<cuuint64_t>(columns) * sizeof(Bf16)};
  const cuuint32_t box[2] = {kPanelColumns, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<Bf16*>(matrix), sizes, row_bytes, box,
             steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) throw std::runtime_error("cuTensorMapEncodeTiled refused a matrix");
  return map;
}

__device__ __forceinline__ void prefetch_descriptor(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Arrives once and makes the phase wait for `bytes` of TMA data.
__device__ __forceinline__ void expect_bytes(Barrier& barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
               "r"(bytes)
               : "memory");
}

/// Starts a TMA load of the box at (row, column).
__device__ __forceinline__ void load_box(const CUtensorMap& map, int row, int column, std::uint32_t to,
                                         Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(&barrier))
      : "memory");
}
/// Multicast to the blocks of the cluster whose bits are set in `blocks`; signals the barrier of each.
__device__ __forceinline__ void multicast_box(unsigned blocks, const CUtensorMap& map, int row, int column,
                                              std::uint32_t to, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, "
      "{%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(&barrier)), "h"(static_cast<std::uint16_t>(blocks))
      : "memory");
}
/// Prefetches the box into L2.
__device__ __forceinline__ void prefetch_box(const CUtensorMap& map, int row, int column) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(&map), "r"(column),
               "r"(row)
               : "memory");
}
/// Makes writes of earlier kernels visible to TMA.
__device__ __forceinline__ void make_visible_to_tma() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// Returns true in one lane of a full warp; the compiler then knows that the branch runs in a single thread.
__device__ __forceinline__ bool is_chosen_lane() {
  std::uint32_t chosen;
  asm volatile(
      "{.reg .pred p;"
      "elect.sync _|p, 0xffffffff;"
      "selp.u32 %0, 1, 0, p;}"
      : "=r"(chosen));
  return chosen != 0;
}

__device__ __forceinline__ int rank_in_cluster() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// Index of this cluster in the grid.
__device__ __forceinline__ int cluster_index() {
  int index;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  return index;
}
__device__ __forceinline__ int cluster_count() {
  int count;
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(count));
  return count;
}
/// Cluster barrier with relaxed ordering, for barrier initializations only (make_barriers_visible()).
__device__ __forceinline__ void wait_for_cluster() {
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
}
/// Makes mbarrier initializations visible to TMA and, after a cluster barrier, to the cluster.
__device__ __forceinline__ void make_barriers_visible() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// Arrives at the counterpart of `barrier` in block `rank` of the cluster.
__device__ __forceinline__ void arrive_in(int rank, Barrier& barrier) {
  asm volatile(
      "{.reg .b32 there;"
      "mapa.shared::cluster.u32 there, %0, %1;"
      "mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(shared_address(&barrier)),
      "r"(rank)
      : "memory");
}

// -- the stage pipeline

inline constexpr int kGroupThreads = 128;
inline constexpr int kStageRowBytes = 2 * kPanelColumns;

/// Stages of a tile of 64 * kWarpgroups rows by kOutputsOfTile outputs.
template <int kWarpgroups, int kOutputsOfTile, int kStagesOfRing>
struct StagePipeline {
  static constexpr int kGroups = kWarpgroups;  // consumer warpgroups
  static constexpr int kThreads = (kGroups + 1) * kGroupThreads;
  static constexpr int kRows = 64 * kGroups;
  static constexpr int kOutputs = kOutputsOfTile;
  static constexpr int kBlocks = kOutputs / 8;  // accumulator blocks of 8 outputs
  static constexpr int kStages = kStagesOfRing;
  static constexpr int kXBytes = kRows * kStageRowBytes;
  static constexpr int kStageBytes = kXBytes + kOutputs * kStageRowBytes;

  unsigned char stages[kStages][kStageBytes];  // x, then W
  Barrier full[kStages];
  Barrier empty[kStages];

  /// Called by one thread. readers: blocks whose warpgroups release a stage.
  __device__ void init(int readers) {
    for (int i = 0; i < kStages; ++i) {
      full[i].init(1);
      empty[i].init(4 * kGroups * readers);
    }
    make_barriers_visible();
  }
  __device__ std::uint32_t x_of(int stage) const {
    return shared_address(stages) + static_cast<std::uint32_t>(stage * kStageBytes);
  }
  __device__ std::uint32_t weights_of(int stage) const { return x_of(stage) + kXBytes; }
};

/// Aligns `Shared` to 1,024 bytes, as wgmma requires, in `memory` of kAlignedBytes<Shared> bytes.
template <class Shared>
constexpr int kAlignedBytes = static_cast<int>(sizeof(Shared)) + 1024;
template <class Shared>
__device__ __forceinline__ Shared& aligned_in(unsigned char* memory) {
  return *reinterpret_cast<Shared*>(memory + (1024 - shared_address(memory) % 1024) % 1024);
}

template <int kStages>
struct StagePosition {
  int stage = 0;
  int round = 0;

  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    ++round;
  }
};

/// A consumer warpgroup. Each of its warps calls release(barrier) to release a stage.
template <class Ring, class Release>
class StageReader {
 public:
  __device__ StageReader(Ring& ring, int group, const Release& release)
      : ring_(ring), group_(group), release_(release) {}

  /// sums = product over the next `stages` stages. The last wgmmas still run on return: call finish() and
  /// settle() before reading sums.
  __device__ __forceinline__ void multiply(int stages, float (&sums)[Ring::kBlocks][4]) {
    for (int step = 0; step < stages; ++step) {
      ring_.full[at_.stage].wait(at_.round);
      const std::uint64_t rows =
          panels_at(ring_.x_of(at_.stage) + static_cast<std::uint32_t>(group_ * kPanelBytes));
      const std::uint64_t weights = panels_at(ring_.weights_of(at_.stage));
      begin_products();
#pragma unroll
      for (int i = 0; i < kPanelColumns / 16; ++i) {
        PanelProduct<Ring::kOutputs>::multiply(sums, advance_descriptor(rows, i * 32),
                                               advance_descriptor(weights, i * 32), step > 0 || i > 0);
      }
      end_products();
      wait_for_products<1>();  // the wgmmas of the previous stage
      if (before_ >= 0) release_(ring_.empty[before_]);
      before_ = at_.stage;
      at_.advance();
    }
  }
  __device__ __forceinline__ void finish() {
    wait_for_products<0>();
    release_(ring_.empty[before_]);
    before_ = -1;
  }

 private:
  Ring& ring_;
  int group_;
  Release release_;
  StagePosition<Ring::kStages> at_;
  int before_ = -1;  // stage that running wgmmas may read
};

}  // namespace reprise::gpu::cuda
