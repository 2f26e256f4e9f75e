#pragma once
// Memory between the GPU and the host for a part of a step that the host computes: rows come down, results go up. Pinned,
// so that the GPU's transfers need no copy between.
//
// The step waits in the middle: take() room, put the copies down into the stream, wait(), compute, put the copy up into
// the stream. What was taken is free again at the next take(), which waits for nothing: by the time of the next wait()
// the stream has done the copy up.
//
// Threading: the thread that runs the model; one of them for each lane (models/cuda/lane.h).

#include <cstddef>

#include "gpu/cuda/stream.h"

namespace reprise::models::cuda {

namespace gc = gpu::cuda;

class HostStaging {
 public:
  explicit HostStaging(gc::Stream& stream) : stream_(stream) {}

  /// What comes down, and what goes up: each keeps its place while the other is in use.
  struct Room {
    std::byte* down;
    std::byte* up;
  };
  /// Grows as steps do, up to what the largest needs. Throws std::bad_alloc.
  Room take(std::size_t down_bytes, std::size_t up_bytes);
  /// Until the copies down are there, and the last one up is done.
  void wait() { stream_.wait(); }

 private:
  gc::Stream& stream_;
  gc::PinnedBytes down_;
  gc::PinnedBytes up_;
};

}  // namespace reprise::models::cuda
