#pragma once
// StoreReader and StoreWriter: the actors of a store tier that block on its store. Also their settings
// (TierSettings), and the records of named snapshots.
//
// StoreReader reads manifests and whole states. Anything that cannot be verified to be what was requested is
// returned as a refusal.
//
// StoreWriter writes snapshots of devices in the background. It first makes room within the bound: expired
// and least recently used manifests are removed with their chunks. If others are writing at that moment, or
// there is no room, the snapshot is dropped. Then it holds the store, so that no chunk is removed, and looks
// which of its chunks the store has. The others are read page by page; the manifest is written last. If it is freed meanwhile, its chunks remain until another snapshot uses them
// or they are collected.
//
// Named snapshots. The names of all tenants are in one folder, sealed under record names that reveal neither
// tenant, salt nor name (protocol/named_snapshots.h).
//
// Failure: expected failures of the reader are answers. A store that cannot be written, or that another user
// has found unreachable, turns writing off, with a log line and a figure; waiting snapshots are dropped.
// Writing is retried every `retry`. An exception from a handler restarts the tier above.
//
// Threading: each actor has its own thread. Threads of the reader's store may decrypt chunks in parallel
// while it waits (RecordStore::read_each): each writes only its chunk's part of the state. Functions of names
// are pure; those that read block on the store.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/tiers/namespace_index.h"
#include "actors/tiers/snapshot_source.h"
#include "actors/tiers/tier_figures.h"
#include "actors/tiers/tier_settings.h"
#include "gpu/state/transfer_buffers.h"
#include "protocol/cache_report.h"
#include "protocol/named_snapshots.h"
#include "protocol/snapshots/manifest.h"
#include "protocol/snapshots/record_store.h"
#include "protocol/tier.h"
#include "runtime/actor.h"

namespace reprise::actors {

// -- the store

/// Settings of a StoreTier.
struct TierSettings {
  protocol::Tier tier = protocol::Tier::kDisk;
  /// Opens a store for one thread; all stores share the breaker.
  std::function<std::unique_ptr<protocol::snapshots::RecordStore>()> open_store{};
  std::shared_ptr<protocol::snapshots::StoreBreaker> breaker{};
  protocol::snapshots::Key master_key{};
  std::uint64_t max_bytes = 0;  // bound of the store; 0: the store bounds itself
  std::chrono::seconds ttl{0};
  bool even_if_slower = false;
  bool pack = false;
  std::uint64_t loading_bytes = 0;
  std::chrono::milliseconds retry{30'000};
  std::function<void(const std::string&)> log{};
  std::shared_ptr<gpu::TransferBuffers> buffers{};
};
TierSettings tier_settings(const DiskTierSettings& disk);
/// Requires: `remote` names a store.
TierSettings tier_settings(const RemoteTierSettings& remote);

// -- names

inline constexpr std::size_t kMaxNameRecord = protocol::NamedSnapshots::kMaxTenantBytes + (1u << 20);

protocol::snapshots::NamespaceKeys name_keys(const protocol::snapshots::Key& master);
protocol::snapshots::RecordId name_record(const protocol::snapshots::NamespaceKeys& keys,
                                          const protocol::NameOwner& owner, const std::string& name);

/// Returns all names in the store, without those that cannot be decrypted or are incomplete.
std::vector<protocol::StoredName> read_names(protocol::snapshots::RecordStore& store,
                                             const protocol::snapshots::Key& master);

// -- reading

/// Digests of the contents of chunks that manifests refer to.
using ChunkSums = std::vector<std::pair<protocol::snapshots::RecordId, std::uint64_t>>;

struct ManifestsRead {
  std::vector<NamespaceIndex::Entry> added{};
  std::vector<protocol::snapshots::RecordId> gone{};
  ChunkSums sums{};
  std::int64_t changed = -1;  // RecordStore::changed(); -1: it could not be read
  bool complete = false;      // all manifests were read, or need not be; else they are to be read later
};
/// Asks for the manifests of a namespace that are not `known`, and for the known ones that are gone.
struct ReadManifests {
  using Reply = ManifestsRead;
  protocol::snapshots::NamespaceKeys keys{};
  protocol::StateKind kind{};
  std::vector<protocol::snapshots::RecordId> known{};
  std::int64_t since = -1;  // if the folder has not changed since, nothing is read
};

/// Asks for the state of the first `at` tokens of `prompt`.
struct ReadState {
  using Reply = Outcome<protocol::SharedHostState, protocol::snapshots::Refused>;
  protocol::snapshots::NamespaceKeys keys{};
  protocol::StateKind kind{};
  protocol::snapshots::RecordId manifest{};
  SharedTokens prompt{};
  std::uint32_t at = 0;
  std::shared_ptr<void> counted{};
};

/// Removes the manifests of states whose tokens begin with the first `length` of `tokens`, their chunks, and the
/// other manifests that refer to these. Manifests that cannot be read now are removed as well.
struct RemoveStates {
  using Reply = std::vector<protocol::snapshots::RecordId>;  // manifests
  protocol::snapshots::NamespaceKeys keys{};
  SharedTokens tokens{};
  std::uint32_t length = 0;
};

/// To the writer: these chunks are wrong or gone, and are written again when needed.
struct ForgetSums {
  std::vector<protocol::snapshots::RecordId> chunks{};
};

class StoreReader : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<ReadManifests, ReadState, RemoveStates, protocol::FetchTurns>;
  static constexpr const char* kName = "tier reader";

  StoreReader(TierSettings settings, std::shared_ptr<TierFigures> figures, runtime::Ref<ForgetSums> writer)
      : settings_(std::move(settings)),
        figures_(std::move(figures)),
        writer_(std::move(writer)),
        store_(settings_.open_store()) {}

  void on_start() {
    if (settings_.buffers) settings_.buffers->prepare();  // before the first request
  }
  ReadManifests::Reply on(ReadManifests job);
  ReadState::Reply on(ReadState job);
  RemoveStates::Reply on(RemoveStates job);
  protocol::FetchTurns::Reply on(const protocol::FetchTurns& job);

 private:
  using Manifest = protocol::snapshots::Manifest;
  using Refused = protocol::snapshots::Refused;

  Outcome<Manifest, Refused> read_manifest(const protocol::snapshots::RecordId& folder,
                                           const protocol::snapshots::RecordId& id);
  Outcome<protocol::SharedHostState, Refused> read_state(const ReadState& job);
  /// Logs a refusal once, and removes a record that can never be used. One that could not be read now is not
  /// remembered as refused.
  void note(const Refused& refused, const protocol::snapshots::RecordId& folder,
            const protocol::snapshots::RecordId& manifest);
  protocol::snapshots::RecordStore::Hold hold_for_removing();

  const TierSettings settings_;
  const std::shared_ptr<TierFigures> figures_;
  const runtime::Ref<ForgetSums> writer_;
  const std::unique_ptr<protocol::snapshots::RecordStore> store_;
  std::set<protocol::snapshots::RecordId> refused_;  // read, refused and not removed
  std::set<protocol::snapshots::RecordId> logged_;   // in the log already
};

// -- writing

/// From the writer to the tier: this state can be found.
struct StateStored {
  protocol::snapshots::RecordId folder{};
  protocol::StateKind kind{};
  NamespaceIndex::Entry entry{};
};
/// From the writer to the tier: these manifests were removed.
struct StatesGone {
  std::vector<std::pair<protocol::snapshots::RecordId, protocol::snapshots::RecordId>>
      manifests{};  // (folder, manifest)
};
/// To the writer: digests of chunks that the store has.
struct KnownSums {
  ChunkSums sums{};
};

class StoreWriter : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::StoreState, protocol::StoreTurn, protocol::NameChange,
                                    KnownSums, ForgetSums>;
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
  void on(const ForgetSums& wrong);

 private:
  using RecordId = protocol::snapshots::RecordId;

  runtime::Task<void> write_all();
  runtime::Task<void> write(protocol::StoreState job);
  bool write_chunk(SnapshotPlan& plan, std::size_t reference, std::span<const std::byte> contents);
  bool write_manifest(const SnapshotPlan& plan);
  runtime::Task<protocol::snapshots::RecordStore::Hold> hold_for_writing();
  /// Makes room for what the store lacks of a snapshot, holds the store and notes which chunks it has. Null:
  /// there is no room, or another process is in the way.
  runtime::Task<protocol::snapshots::RecordStore::Hold> prepare_to_write(SnapshotPlan& plan);
  /// Notes which chunks the store has, with their digests. Returns the bytes to be written.
  std::uint64_t note_existing(SnapshotPlan& plan);

  bool make_room(std::uint64_t bytes);
  bool collect(std::uint64_t max_bytes);
  runtime::Task<void> tend();
  void fail(const protocol::snapshots::IoTrouble& trouble);
  void publish();

  const TierSettings settings_;
  const std::shared_ptr<TierFigures> figures_;
  const TierAbove above_;
  const std::unique_ptr<protocol::snapshots::RecordStore> store_;
  StoreQueue waiting_;
  std::unordered_map<RecordId, std::uint64_t, protocol::snapshots::RecordIdHash> sums_;
  std::uint64_t bytes_ = 0;  // bytes in the store, as far as known
  bool writes_ = false;      // a write is in progress
  bool off_ = false;
};

}  // namespace reprise::actors
