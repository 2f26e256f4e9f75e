#pragma once
// What a pass needs of its own while it is under way: a stream, the description of its batch, memory for activations and
// logits, and the recordings of such passes. There is one lane for each phase, so that a prefill and a decode of different
// sequences are computed at the same time.
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

  /// Recordings name memory: after it has moved they are of no use. `others`: how often that has which is not the lane's.
  void forget_moved(std::uint64_t others) {
    const std::uint64_t moves = upload.moves() + workspace.moves() + others;
    if (moves == recorded_at) return;
    recordings.clear();
    recorded_at = moves;
  }

  /// What decides how much memory a pass needs, and how much that is: of passes that follow each other it is the same.
  struct Space {
    StepSize size;
    int picked_rows = 0;
    int rank = 0;

    bool operator==(const Space&) const = default;
  };

  gc::Stream stream;
  gc::Stopwatch stopwatch;
  bool is_timed = false;  // the pass under way
  Space space;
  std::size_t space_bytes = 0;  // of it; 0: not known yet
  BatchUpload upload;
  Workspace workspace;
  HostStaging staging{stream};
  gc::GraphCache recordings;  // of passes, by their sizes
  std::uint64_t recorded_at = 0;
  gc::PinnedBytes logits;  // on the host
};

}  // namespace reprise::models::cuda
