#pragma once
// A snapshot of a device on its way into a tier: what its chunks are called, and how they are read, page by page,
// without those that the tier has already.
//
// It may go while it is being read: nobody waits for a tier.
//
// Threading: the actor's that writes.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpu/transfer_buffers.h"
#include "protocol/snapshots/manifest.h"
#include "protocol/tier.h"
#include "runtime/task.h"

namespace reprise::actors {

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
