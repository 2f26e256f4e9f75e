#pragma once
// StoreWriter: writes snapshots of devices to a store, behind the requests that made them, and keeps the store within
// its bound.
//
// A snapshot is read from its device page by page, without what the store has already; the manifest comes last. It
// may go while it is being read: then what was written waits for another that has it too, or for being collected.
//
// Bound: before anything is written, room for it is made: expired and least recently used manifests go, with their
// chunks. Where others write at that moment, or there is no room, the snapshot is left.
//
// Failure: a store that cannot be written turns the tier's writing off, with a line in the log and a figure; what
// waits is left. So does one that somebody else has found gone. It is tried again every `retry`. What leaves a handler
// fails the tier above it.
//
// Threading: an actor on a thread of its own, which blocks on its store.

#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "actors/tiers/snapshot_source.h"
#include "actors/tiers/store_queue.h"
#include "actors/tiers/store_reader.h"
#include "actors/tiers/tier_figures.h"
#include "actors/tiers/tier_settings.h"
#include "protocol/named_snapshots.h"
#include "protocol/snapshots/record_store.h"
#include "protocol/tier.h"
#include "runtime/actor.h"

namespace reprise::actors {

/// From the writer to the tier: this can be found from now on.
struct StateStored {
  protocol::snapshots::RecordId folder{};
  protocol::StateKind kind{};
  NamespaceIndex::Entry entry{};
};
/// From the writer to the tier: these manifests were collected.
struct StatesGone {
  std::vector<std::pair<protocol::snapshots::RecordId, protocol::snapshots::RecordId>>
      manifests{};  // and folders
};
/// To the writer: what chunks hold that it finds there already.
struct KnownSums {
  ChunkSums sums{};
};

class StoreWriter : public runtime::Actor {
 public:
  using Accepts =
      runtime::Messages<protocol::StoreState, protocol::StoreTurn, protocol::NameChange, KnownSums>;
  using TierAbove = runtime::Ref<StateStored, StatesGone>;
  static constexpr const char* kName = "tier writer";
  static constexpr std::uint32_t kConcurrentHandlers = 16;

  StoreWriter(TierSettings settings, std::shared_ptr<TierFigures> figures, TierAbove above)
      : settings_(std::move(settings)),
        figures_(std::move(figures)),
        above_(std::move(above)),
        store_(settings_.open_store()) {}

  void on_start();
  void on(protocol::StoreState job);
  void on(const protocol::StoreTurn& job);
  void on(const protocol::NameChange& change);
  void on(KnownSums known);

 private:
  using RecordId = protocol::snapshots::RecordId;

  runtime::Task<void> write_all();
  runtime::Task<void> write(protocol::StoreState job);
  bool write_chunk(SnapshotPlan& plan, std::size_t reference, std::span<const std::byte> contents);
  bool write_manifest(const SnapshotPlan& plan);
  runtime::Task<std::shared_ptr<void>> hold_for_writing();
  bool is_there(const SnapshotPlan& plan, std::size_t reference);

  bool make_room(std::uint64_t bytes);
  bool collect(std::uint64_t most_bytes);
  runtime::Task<void> tend();
  void fail(const protocol::snapshots::IoTrouble& trouble);
  void publish();

  const TierSettings settings_;
  const std::shared_ptr<TierFigures> figures_;
  const TierAbove above_;
  const std::unique_ptr<protocol::snapshots::RecordStore> store_;
  StoreQueue waiting_;
  std::unordered_map<RecordId, std::uint64_t, protocol::snapshots::RecordIdHash> sums_;
  std::uint64_t bytes_ = 0;  // of the folder, as far as it is known
  bool writes_ = false;      // one of them, at this moment
  bool off_ = false;
};

}  // namespace reprise::actors
