#pragma once
// How long a snapshot of a sequence takes, its restoration, and a plain copy of as many bytes.
//
// Threading: the thread that owns the store.

#include <cstddef>

#include "gpu/state_store.h"
#include "tools/lab/bench_times.h"

namespace reprise::tools {

struct SnapshotTimes {
  std::size_t bytes = 0;  // that one of the three moves
  Times capture;
  Times restore;
  Times copy;

  /// Snapshot and restoration together, beside two copies.
  double beside_copies() const { return (capture.median() + restore.median()) / (2 * copy.median()); }
};

/// Of the sequence as it stands. Throws std::runtime_error when the state does not fit the memory.
SnapshotTimes measure_snapshots(gpu::StateStore& store, const gpu::Sequence& source, unsigned repeat);

}  // namespace reprise::tools
