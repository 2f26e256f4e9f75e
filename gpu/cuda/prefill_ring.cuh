#pragma once
// What products of prefills by warpgroups (compute capability 9.0) have in common: stages of 64 columns of x and of the weights, in a
// ring in shared memory. One thread brings them; each warpgroup but its own multiplies 64 rows and gives stages back. Included by
// CUDA sources that are compiled for 9.0a alone.
//
// A stage comes from the cache that all blocks share in about a microsecond, in which a block multiplies several: rings are as deep
// as there is memory for them.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/error.h"
#include "gpu/cuda/warpgroup.cuh"

namespace reprise::gpu::cuda {

// Copies of rectangles of a matrix into shared memory by the copy engine, and blocks of a cluster that share them, in names.
// A rectangle is some rows of 64 bf16, and lands as a panel (gpu/cuda/warpgroup.cuh). What lies outside of the matrix is
// zeros, and counts as bytes that have come.

/// A matrix bf16 [rows, columns] of which rectangles of box_rows rows are copied. Columns are a multiple of 8, box_rows at most 256.
/// Throws std::runtime_error.
inline CUtensorMap map_of(const Bf16* matrix, int rows, int columns, int box_rows) {
  using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                              const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  static const Encode encode = [] {
    constexpr unsigned kSince = 12000;  // the driver's version that has it
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

__device__ __forceinline__ void ask_for_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// What is copied with `barrier` comes to so many bytes: one arrival, which counts when they are there.
__device__ __forceinline__ void expect_bytes(Barrier& barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
               "r"(bytes)
               : "memory");
}

/// The rectangle at (row, column), in the background.
__device__ __forceinline__ void copy_rectangle(const CUtensorMap& map, int row, int column, std::uint32_t to,
                                               Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(&barrier))
      : "memory");
}
/// The same into the blocks of the cluster that `blocks` has bits of, with the barrier of each.
__device__ __forceinline__ void copy_rectangle_to(unsigned blocks, const CUtensorMap& map, int row,
                                                  int column, std::uint32_t to, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, "
      "{%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(&barrier)), "h"(static_cast<std::uint16_t>(blocks))
      : "memory");
}
/// Into the cache that all blocks share.
__device__ __forceinline__ void ask_for_rectangle(const CUtensorMap& map, int row, int column) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(&map), "r"(column),
               "r"(row)
               : "memory");
}
/// What earlier kernels wrote is seen by copies from here on.
__device__ __forceinline__ void show_to_copies() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// True in one lane of a warp, all of whose lanes call it: the compiler then knows that what follows is done once.
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
/// Of the cluster among all.
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
/// Until all threads of the cluster have come here. Of what they wrote, barriers alone are seen (show_barriers()).
__device__ __forceinline__ void wait_for_cluster() {
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
}
/// Barriers that were made before are seen by copies, in all blocks of the cluster once it has been waited for.
__device__ __forceinline__ void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// Arrives at the barrier that stands where `barrier` does in block `rank` of the cluster.
__device__ __forceinline__ void arrive_in(int rank, Barrier& barrier) {
  asm volatile(
      "{.reg .b32 there;"
      "mapa.shared::cluster.u32 there, %0, %1;"
      "mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(shared_address(&barrier)),
      "r"(rank)
      : "memory");
}

// The ring.

inline constexpr int kGroupThreads = 128;  // of a warpgroup
inline constexpr int kStageRowBytes = 2 * kPanelColumns;

/// Of a tile of y: 64 rows a warpgroup, by so many outputs.
template <int kWarpgroups, int kOutputsOfTile, int kStagesOfRing>
struct StageRing {
  static constexpr int kGroups = kWarpgroups;  // that multiply
  static constexpr int kThreads = (kGroups + 1) * kGroupThreads;
  static constexpr int kRows = 64 * kGroups;
  static constexpr int kOutputs = kOutputsOfTile;
  static constexpr int kBlocks = kOutputs / 8;  // of 8 outputs
  static constexpr int kStages = kStagesOfRing;
  static constexpr int kXBytes = kRows * kStageRowBytes;
  static constexpr int kStageBytes = kXBytes + kOutputs * kStageRowBytes;

  unsigned char stages[kStages][kStageBytes];  // x, then the weights
  Barrier there[kStages];
  Barrier read[kStages];

  /// By one thread. readers: blocks whose warpgroups give a stage back.
  __device__ void init(int readers) {
    for (int i = 0; i < kStages; ++i) {
      there[i].init(1);
      read[i].init(4 * kGroups * readers);
    }
    show_barriers();
  }
  __device__ std::uint32_t x_of(int stage) const {
    return shared_address(stages) + static_cast<std::uint32_t>(stage * kStageBytes);
  }
  __device__ std::uint32_t weights_of(int stage) const { return x_of(stage) + kXBytes; }
};

/// A ring that begins where products want it, in `memory`, which has kAlignedBytes<Shared>.
template <class Shared>
constexpr int kAlignedBytes = static_cast<int>(sizeof(Shared)) + 1024;
template <class Shared>
__device__ __forceinline__ Shared& aligned_in(unsigned char* memory) {
  return *reinterpret_cast<Shared*>(memory + (1024 - shared_address(memory) % 1024) % 1024);
}

/// A place in the ring, and how often the ring has been gone through.
template <int kStages>
struct RingPlace {
  int stage = 0;
  int round = 0;

  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    ++round;
  }
};

/// A warpgroup that multiplies what comes through the ring. give_back(barrier): called by its warps for a stage that they no longer
/// read.
template <class Ring, class GiveBack>
class RingReader {
 public:
  __device__ RingReader(Ring& ring, int group, const GiveBack& give_back)
      : ring_(ring), group_(group), give_back_(give_back) {}

  /// sums = those of the next stages. They run on: nobody looks at them before finish() and settle().
  __device__ __forceinline__ void multiply(int stages, float (&sums)[Ring::kBlocks][4]) {
    for (int step = 0; step < stages; ++step) {
      ring_.there[at_.stage].wait(at_.round);
      const std::uint64_t rows =
          panels_at(ring_.x_of(at_.stage) + static_cast<std::uint32_t>(group_ * kPanelBytes));
      const std::uint64_t weights = panels_at(ring_.weights_of(at_.stage));
      begin_products();
#pragma unroll
      for (int i = 0; i < kPanelColumns / 16; ++i) {
        PanelProduct<Ring::kOutputs>::multiply(sums, further(rows, i * 32), further(weights, i * 32),
                                               step > 0 || i > 0);
      }
      end_products();
      wait_for_products<1>();  // those of the stage before
      if (before_ >= 0) give_back_(ring_.read[before_]);
      before_ = at_.stage;
      at_.advance();
    }
  }
  __device__ __forceinline__ void finish() {
    wait_for_products<0>();
    give_back_(ring_.read[before_]);
    before_ = -1;
  }

 private:
  Ring& ring_;
  int group_;
  GiveBack give_back_;
  RingPlace<Ring::kStages> at_;
  int before_ = -1;  // a stage whose products may still run
};

}  // namespace reprise::gpu::cuda
