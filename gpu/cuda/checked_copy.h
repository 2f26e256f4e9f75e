#pragma once
// gpu/checked_copy.h on a GPU: copies that look at what they copy, several of them in one launch.
//
// The checksum is a wrapping sum over all 64-bit words of a mix of the word and its place: the order of the
// additions does not matter, so it is the same for every number of multiprocessors; and one changed word
// always changes it. It is another number than the host's.
//
// Threading: launches into `stream`. A CheckedCopier serves one stream, and one launch at a time.

#include <cstddef>
#include <span>

#include "gpu/block_memory.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

class CheckedCopier {
 public:
  static constexpr std::size_t kMostCopies = 8;      // of one launch
  static constexpr std::size_t kCopyAlignment = 16;  // of both ends of a copy

  /// For the current GPU.
  CheckedCopier();

  /// At most kMostCopies, of sizes that are multiples of 4; both ends are memory that the GPU reaches. A copy
  /// to null is only looked at.
  void launch(std::span<const BlockMemory::Copy> copies, StreamHandle stream);
  /// Of the copy of that index in the last launch, once the stream has been waited for.
  CopyFigures figures(std::size_t index) const;

 private:
  DeviceBytes totals_;   // zeros between launches
  PinnedBytes results_;  // the last block of a launch writes them
  std::size_t sizes_[kMostCopies] = {};
  unsigned most_blocks_ = 0;
};

}  // namespace reprise::gpu::cuda
