#pragma once
// What products of prefills by warpgroups (compute capability 9.0) have in common: stages of 64 columns of x and of the weights, in a
// ring in shared memory. One thread brings them; each warpgroup but its own multiplies 64 rows and gives stages back. Included by
// CUDA sources that are compiled for 9.0a alone.
//
// A stage comes from the cache that all blocks share in about a microsecond, in which a block multiplies several: rings are as deep
// as there is memory for them.

#include "gpu/cuda/tensor_copy.cuh"

namespace reprise::gpu::cuda {

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
