#pragma once
// Moves snapshots from a device to a tier: a queue of waiting snapshots, the names of their chunks, and
// reading them page by page without the chunks that the tier has. A snapshot may be freed while it waits or
// is read: the device does not wait for a tier.
//
// Threading: the thread of the writing actor.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "gpu/state/transfer_buffers.h"
#include "protocol/snapshots/manifest.h"
#include "protocol/tier.h"
#include "runtime/event.h"
#include "runtime/task.h"

namespace reprise::actors {

/// Snapshots that wait to be read, in arrival order; those that wait until their device is idle come after all
/// others, and a busy device delays its own alone.
/// At most kMaxWaiting of each kind wait; beyond that, the oldest are dropped.
class StoreQueue {
 public:
  static constexpr std::size_t kMaxWaiting = 256;

  /// Adds a job. Returns false if an older one was dropped for it.
  bool push(protocol::StoreState job);
  /// Waits for a job and returns it; nullopt when the actor ends.
  runtime::Task<std::optional<protocol::StoreState>> next();
  void clear();
  std::size_t size() const { return waiting_.size() + idle_waiting_.size(); }

 private:
  std::optional<protocol::StoreState> take();

  std::deque<protocol::StoreState> waiting_;
  std::deque<protocol::StoreState> idle_waiting_;
  runtime::Event came_;
};

struct SnapshotPlan {
  protocol::snapshots::NamespaceKeys keys{};
  protocol::snapshots::RecordId id{};        // the manifest's
  protocol::snapshots::Manifest manifest{};  // its digests are filled in later
  std::vector<bool> there{};                 // chunks that need not be read; empty: all must

  std::size_t chunks() const { return manifest.references.size(); }
  bool is_there(std::size_t chunk) const { return chunk < there.size() && there[chunk]; }
  bool is_slot(std::size_t chunk) const { return chunk >= manifest.first_of_slot(); }
  protocol::snapshots::RecordKind kind_of(std::size_t chunk) const { return manifest.chunk(chunk).kind; }
  std::uint64_t bytes_of(std::size_t chunk) const { return manifest.chunk(chunk).bytes; }
};

SnapshotPlan plan_snapshot(const protocol::snapshots::Key& master, const protocol::StoreState& job);

/// Receives a chunk. Returns false to stop reading.
using TakeChunk = std::function<bool(std::size_t chunk, std::span<const std::byte> contents)>;
enum class ChunksRead : std::uint8_t { kAll, kGone, kNotWanted };
/// Reads the missing chunks in order, through `buffers` (null: the heap). All arguments must outlive the
/// task.
runtime::Task<ChunksRead> read_chunks(const protocol::StoreState& job, const SnapshotPlan& plan,
                                      gpu::TransferBuffers* buffers, const TakeChunk& take);

}  // namespace reprise::actors
