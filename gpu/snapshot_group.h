#pragma once
// How many bytes a group of snapshots holds together: pages that several of them share count once.
//
// Threading: one thread, the device worker's. The snapshots of a group are all of one store.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/state_store.h"

namespace reprise::gpu {

class SnapshotGroup {
 public:
  explicit SnapshotGroup(const StateSizes& sizes) : sizes_(sizes) {}

  void add(const Snapshot& snapshot) {
    bytes_ += growth(snapshot);
    for (const BlockId page : snapshot.pages()) ++holders_[page];
  }
  void remove(const Snapshot& snapshot) {
    for (const BlockId page : snapshot.pages()) {
      if (--holders_[page] == 0) bytes_ -= sizes_.page_bytes;
    }
    bytes_ -= sizes_.slot_bytes;
  }
  /// By how much bytes() would grow with this one.
  std::size_t growth(const Snapshot& snapshot) {
    std::size_t bytes = sizes_.slot_bytes;
    for (const BlockId page : snapshot.pages()) {
      if (page >= holders_.size()) holders_.resize(page + 1);
      if (holders_[page] == 0) bytes += sizes_.page_bytes;
    }
    return bytes;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  const StateSizes sizes_;
  std::vector<std::uint32_t> holders_;  // of each page, among the group
  std::size_t bytes_ = 0;
};

}  // namespace reprise::gpu
