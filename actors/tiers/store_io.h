#pragma once
// The actors of a store tier that block on its store: StoreReader and StoreWriter; what they are told of the store
// (TierSettings); and the records of named snapshots in it.
//
// StoreReader reads manifests and whole states. It decides nothing: what it cannot prove to be what was asked for comes
// back as a refusal.
//
// StoreWriter writes snapshots of devices, behind the requests that made them, and keeps the store within its bound. A
// snapshot is read from its device page by page, without what the store has already; the manifest comes last. It may go
// while it is being read: then what was written waits for another that has it too, or for being collected. Before anything
// is written, room for it is made: expired and least recently used manifests go, with their chunks. Where others write at
// that moment, or there is no room, the snapshot is left.
//
// Names. All tenants' names are in one folder, each sealed under a name that tells neither tenant, salt nor name
// (protocol/named_snapshots.h).
//
// Failure: of the reader, expected ones are answers. A store that cannot be written turns the tier's writing off, with a
// line in the log and a figure; what waits is left. So does one that somebody else has found gone. It is tried again every
// `retry`. What leaves a handler of either fails the tier above, which begins anew.
//
// Threading: actors on threads of their own. Threads of the reader's store may open chunks of a state while it waits for
// them (RecordStore::read_each): each writes its own chunk's place in the state and nothing else. Functions of names are
// pure; reading blocks on the store.

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
#include "gpu/transfer_buffers.h"
#include "protocol/cache_report.h"
#include "protocol/named_snapshots.h"
#include "protocol/snapshots/manifest.h"
#include "protocol/snapshots/record_store.h"
#include "protocol/tier.h"
#include "runtime/actor.h"

namespace reprise::actors {

// -- the store

/// What a StoreTier is told of the place that it looks after.
struct TierSettings {
  protocol::Tier tier = protocol::Tier::kDisk;
  /// A store for one thread; all of them share the breaker.
  std::function<std::unique_ptr<protocol::snapshots::RecordStore>()> open_store{};
  std::shared_ptr<protocol::snapshots::StoreBreaker> breaker{};
  protocol::snapshots::Key master_key{};
  std::uint64_t most_bytes = 0;  // there; 0: its own business
  std::chrono::seconds ttl{0};
  bool even_if_slower = false;
  bool pack = false;
  std::uint64_t loading_bytes = 0;
  std::chrono::milliseconds retry{30'000};
  std::function<void(const std::string&)> log{};
  std::shared_ptr<gpu::TransferBuffers> buffers{};
};
TierSettings tier_settings(const DiskTierSettings& disk);
/// `remote` names a store.
TierSettings tier_settings(const RemoteTierSettings& remote);

// -- names

inline constexpr std::size_t kMaxNameRecord = protocol::NamedSnapshots::kMaxTenantBytes + (1u << 20);

protocol::snapshots::NamespaceKeys name_keys(const protocol::snapshots::Key& master);
protocol::snapshots::RecordId name_record(const protocol::snapshots::NamespaceKeys& keys,
                                          const protocol::NameOwner& owner, const std::string& name);

/// All names that the store has. One that cannot be opened, or is not whole, is left out.
std::vector<protocol::StoredName> read_names(protocol::snapshots::RecordStore& store,
                                             const protocol::snapshots::Key& master);

// -- reading

/// Digests of the contents of chunks that manifests refer to.
using ChunkSums = std::vector<std::pair<protocol::snapshots::RecordId, std::uint64_t>>;

struct ManifestsRead {
  std::vector<NamespaceIndex::Entry> added{};
  std::vector<protocol::snapshots::RecordId> gone{};
  ChunkSums sums{};
  std::int64_t changed = 0;  // of the folder, when it was read; -1: it could not be
};
/// What the manifests of a namespace say: those that are not `known`, and which of these have gone.
struct ReadManifests {
  using Reply = ManifestsRead;
  protocol::snapshots::NamespaceKeys keys{};
  protocol::StateKind kind{};
  std::vector<protocol::snapshots::RecordId> known{};
  std::int64_t since = 0;  // nothing is read if the folder has not changed since
};

/// A state, as far as the first `at` of these tokens.
struct ReadState {
  using Reply = Outcome<protocol::SharedHostState, protocol::snapshots::Refused>;
  protocol::snapshots::NamespaceKeys keys{};
  protocol::StateKind kind{};
  protocol::snapshots::RecordId manifest{};
  SharedTokens prompt{};
  std::uint32_t at = 0;
  std::shared_ptr<void> counted{};
};

/// Removes the manifests of states whose tokens begin with these, and their chunks.
struct RemoveStates {
  using Reply = std::vector<protocol::snapshots::RecordId>;  // manifests
  protocol::snapshots::NamespaceKeys keys{};
  SharedTokens tokens{};
  std::uint32_t length = 0;
};

class StoreReader : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<ReadManifests, ReadState, RemoveStates, protocol::FetchTurns>;
  static constexpr const char* kName = "tier reader";

  StoreReader(TierSettings settings, std::shared_ptr<TierFigures> figures)
      : settings_(std::move(settings)), figures_(std::move(figures)), store_(settings_.open_store()) {}

  void on_start() {
    if (settings_.buffers) settings_.buffers->prepare();  // nobody waits yet
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
  /// Says so once, and removes what can never be read again.
  void note(const Refused& refused, const protocol::snapshots::RecordId& folder,
            const protocol::snapshots::RecordId& manifest);

  const TierSettings settings_;
  const std::shared_ptr<TierFigures> figures_;
  const std::unique_ptr<protocol::snapshots::RecordStore> store_;
  std::set<protocol::snapshots::RecordId> refused_;  // and still there: said once
};

// -- writing

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
