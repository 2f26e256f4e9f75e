#pragma once
// DiskWriter: writes snapshots of devices to a folder, behind the requests that made them, and keeps the folder within
// its bound.
//
// A snapshot is read from its device page by page, without what the folder has already; the manifest comes last. It
// may go while it is being read: then what was written waits for another that has it too, or for being collected. At
// most kMostWaiting wait; of more, the oldest are left. Those that may wait for idle time do so, behind all others.
//
// Bound: before anything is written, room for it is made: expired and least recently used manifests go, with their
// chunks. Where others write at that moment, or there is no room, the snapshot is left.
//
// Failure: a folder that cannot be written turns the tier's writing off, with a line in the log and a figure; what
// waits is left. It is tried again every `kRetry`. What leaves a handler fails the tier above it.
//
// Threading: an actor on a thread of its own, which blocks on files.

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "actors/tiers/disk_reader.h"
#include "actors/tiers/tier_figures.h"
#include "actors/tiers/tier_settings.h"
#include "protocol/snapshots/snapshot_folder.h"
#include "protocol/tier.h"
#include "runtime/actor.h"
#include "runtime/event.h"

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

class DiskWriter : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::StoreState, KnownSums>;
  using TierAbove = runtime::Ref<StateStored, StatesGone>;
  static constexpr const char* kName = "disk writer";
  static constexpr std::size_t kMostWaiting = 256;
  static constexpr std::chrono::seconds kRetry{30};
  static constexpr std::uint32_t kConcurrentHandlers = 16;

  DiskWriter(DiskTierSettings settings, std::shared_ptr<TierFigures> figures, TierAbove above)
      : settings_(std::move(settings)),
        figures_(std::move(figures)),
        above_(std::move(above)),
        folder_(settings_.folder) {}

  void on_start();
  void on(protocol::StoreState job);
  void on(KnownSums known);

 private:
  using RecordId = protocol::snapshots::RecordId;
  struct Plan;

  runtime::Task<void> write_all();
  runtime::Task<void> write(protocol::StoreState job);
  runtime::Task<bool> write_chunks(const protocol::StoreState& job, Plan& plan);
  bool write_chunk(Plan& plan, std::size_t reference, std::span<const std::byte> contents);
  bool write_manifest(const Plan& plan);
  runtime::Task<bool> wait_for_lock(Plan& plan);
  bool is_there(const Plan& plan, std::size_t reference) const;

  bool make_room(std::uint64_t bytes);
  bool collect(std::uint64_t most_bytes);
  runtime::Task<void> tend();
  void fail(const protocol::snapshots::IoTrouble& trouble);
  void publish();

  const DiskTierSettings settings_;
  const std::shared_ptr<TierFigures> figures_;
  const TierAbove above_;
  const protocol::snapshots::SnapshotFolder folder_;
  std::deque<protocol::StoreState> waiting_;
  std::deque<protocol::StoreState> idle_waiting_;
  runtime::Event came_;
  std::unordered_map<RecordId, std::uint64_t, protocol::snapshots::RecordIdHash> sums_;
  std::uint64_t bytes_ = 0;  // of the folder, as far as it is known
  bool writes_ = false;      // one of them, at this moment
  bool off_ = false;
};

}  // namespace reprise::actors
