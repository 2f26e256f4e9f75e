#pragma once
// Snapshots of a device on their way into a tier: the queue in which they wait, what their chunks are called, and how they
// are read, page by page, without those that the tier has already. A snapshot may go while it waits or is read: nobody
// waits for a tier.
//
// Threading: the actor's that writes.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "gpu/transfer_buffers.h"
#include "protocol/snapshots/manifest.h"
#include "protocol/tier.h"
#include "runtime/event.h"
#include "runtime/task.h"

namespace reprise::actors {

/// Those that wait to be read, in the order in which they came. Those that may wait for idle time do so, behind all others.
/// At most kMostWaiting of each kind wait; of more, the oldest are left.
class StoreQueue {
 public:
  static constexpr std::size_t kMostWaiting = 256;

  /// False: an older one was left for it.
  bool push(protocol::StoreState job);
  /// Whose turn it is, when it has come. Nothing: the actor ends.
  runtime::Task<std::optional<protocol::StoreState>> next();
  void clear();
  std::size_t size() const { return waiting_.size() + idle_waiting_.size(); }

 private:
  std::deque<protocol::StoreState> waiting_;
  std::deque<protocol::StoreState> idle_waiting_;
  runtime::Event came_;
};

struct SnapshotPlan {
  protocol::snapshots::NamespaceKeys keys{};
  protocol::snapshots::RecordId id{};        // of the manifest
  protocol::snapshots::Manifest manifest{};  // its sums are to be filled in
  std::vector<bool> there{};                 // chunks that need not be read; as many as there are, or none

  std::size_t chunks() const { return manifest.references.size(); }
  bool is_there(std::size_t chunk) const { return chunk < there.size() && there[chunk]; }
  bool is_slot(std::size_t chunk) const { return chunk >= manifest.first_of_slot(); }
  protocol::snapshots::RecordKind kind_of(std::size_t chunk) const { return manifest.chunk(chunk).kind; }
  std::uint64_t bytes_of(std::size_t chunk) const { return manifest.chunk(chunk).bytes; }
};

SnapshotPlan plan_snapshot(const protocol::snapshots::Key& master, const protocol::StoreState& job);

/// False: no more is wanted.
using TakeChunk = std::function<bool(std::size_t chunk, std::span<const std::byte> contents)>;
enum class ChunksRead : std::uint8_t { kAll, kGone, kNotWanted };
/// Of those that are not there, in their order, by way of `buffers` (null: the heap). All arguments must outlive it.
runtime::Task<ChunksRead> read_chunks(const protocol::StoreState& job, const SnapshotPlan& plan,
                                      gpu::TransferBuffers* buffers, const TakeChunk& take);

}  // namespace reprise::actors
