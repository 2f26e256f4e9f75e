#pragma once
// Brings the description of a step to the GPU in one copy: gpu/cuda/batch.h from slices of sequences.
//
// Threading: one thread. What make() gave is valid until the next call, which must not come before the stream
// has done with it; what lies on the GPU is so behind bring().

#include <span>
#include <vector>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/kv_selection.h"
#include "gpu/cuda/stream.h"
#include "models/cuda/step.h"
#include "models/model.h"

namespace reprise::models::cuda {

/// As kernels see it.
gc::QueryRing ring_of(const PromptTail& tail);

class BatchUpload {
 public:
  struct Made {
    gc::Batch batch;
    StepSize size;
    const std::int32_t* picked = nullptr;  // [picked_rows] rows of which logits are wanted
    int picked_rows = 0;
    const gc::QueryRing* rings = nullptr;  // [slices]; null: no slice's prompt will be compacted
    gc::SlotExports exports{};
    std::size_t bytes = 0;       // of it all
    std::size_t most_bytes = 0;  // of another one whose numbers and `longest` are the same
  };

  /// Rows of a prefill are filled up to a multiple of the grid with ones of no slice, and `longest` is rounded up to one
  /// of few values. Where everything but the pages lies depends on the numbers of slices, tiles, rows and picked rows
  /// alone, and on whether there are rings: so one recording of a step serves many.
  Made make(std::span<const Slice> slices, Phase phase);
  /// That many of the bytes, or anything behind them, where most_bytes are asked for and fits_recording().
  void bring(std::size_t bytes, gc::StreamHandle stream) const;
  /// Whether a recording can bring them, whose length is that of the longest that it serves.
  static bool fits_recording(const Made& made) { return made.most_bytes <= kMostRecorded; }
  /// Grows when the memory on the GPU has been replaced.
  std::uint64_t moves() const { return moves_; }

 private:
  static constexpr std::size_t kMostRecorded = std::size_t{32} << 10;

  gc::PinnedBytes staging_;
  gc::DeviceBytes device_;
  std::uint64_t moves_ = 0;
};

}  // namespace reprise::models::cuda
