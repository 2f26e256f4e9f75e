#pragma once
// What a pass needs of its own while it is under way: a stream, the description of its batch, memory for activations and
// logits, and the recordings of such passes. There is one lane for each phase, so that a prefill and a decode of different
// sequences are computed at the same time, and one for the second wave of a prefill (models/cuda/waves.h).
//
// Threading: used by the thread that runs the model. A lane has one pass at a time.

#include <cstdint>

#include "gpu/cuda/graph.h"
#include "gpu/cuda/stream.h"
#include "models/cuda/batch_upload.h"
#include "models/cuda/host_staging.h"
#include "models/cuda/step.h"

namespace reprise::models::cuda {

struct Lane {
  explicit Lane(gc::Stream::Priority priority) : stream(priority) {}

  /// Grows when memory that recordings name has moved.
  std::uint64_t moves() const { return upload.moves() + workspace.moves(); }
  /// Recordings name memory: after it has moved they are of no use. `others`: how often that of another lane has, which
  /// they name too.
  void forget_moved(std::uint64_t others = 0) {
    const std::uint64_t moved = moves() + others;
    if (moved == recorded_at) return;
    recordings.clear();
    recorded_at = moved;
  }

  gc::Stream stream;
  gc::Stopwatch stopwatch;
  BatchUpload upload;
  Workspace workspace;
  HostStaging staging{stream};
  gc::GraphCache recordings;  // of passes, by their sizes
  std::uint64_t recorded_at = 0;
  gc::PinnedBytes logits;  // on the host
};

}  // namespace reprise::models::cuda
