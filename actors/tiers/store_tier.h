#pragma once
// StoreTier keeps snapshots in a folder, or in a store that servers share (protocol/tier.h,
// docs/formats/snapshot.md). It indexes what is there; StoreReader reads states, and StoreWriter adds them
// and keeps the store within its bound.
//
// The index of a namespace is read from its manifests at the first lookup, and updated when other processes
// have changed the store. The snapshots are the only persistent data, so a process may end at any time.
//
// While the store is unreachable (protocol/snapshots/record_store.h), lookups miss at once. States of another
// arithmetic are misses. A state that would be computed sooner than read, by more than TierFigures::kMayLose
// and as far as both speeds are known, is not read. If a state is refused, it is forgotten and the next best
// is read, up to kTries in all; one that could not be read is looked at again after `retry`. If too many bytes
// are being restored, a shorter state is tried.
//
// Failure: an exception in one of its handlers or its children restarts it with an empty index.
// Threading: a re-entrant actor on the pool; only its children block on the store.

#include <chrono>
#include <map>
#include <memory>
#include <utility>

#include "actors/tiers/namespace_index.h"
#include "actors/tiers/store_io.h"
#include "actors/tiers/tier_figures.h"
#include "actors/tiers/tier_settings.h"
#include "protocol/named_snapshots.h"
#include "protocol/tier.h"
#include "runtime/actor.h"
#include "runtime/event.h"

namespace reprise::actors {

class StoreTier : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::FindState, protocol::FetchState, protocol::StoreState,
                                    protocol::ForgetStates, protocol::StoreTurn,
                                    protocol::FetchTurns, protocol::NameChange, StateStored, StatesGone>;
  static constexpr const char* kName = "tier";
  static constexpr std::uint32_t kMaxRestarts = 10;
  static constexpr std::chrono::minutes kRestartWindow{1};
  static constexpr std::uint32_t kConcurrentHandlers = 65'536;

  StoreTier(TierSettings settings, std::shared_ptr<TierFigures> figures);

  void on_start();
  runtime::Task<protocol::FoundState> on(protocol::FindState job);
  runtime::Task<protocol::Fetched> on(protocol::FetchState job);
  void on(protocol::StoreState job);
  runtime::Task<void> on(protocol::ForgetStates job);
  /// Frees the index; it is read again when needed.
  void on(protocol::StoreTurn job);
  void on(protocol::NameChange change);
  runtime::Task<protocol::FetchTurns::Reply> on(protocol::FetchTurns job);
  void on(StateStored stored);
  void on(StatesGone gone);

 private:
  using RecordId = protocol::snapshots::RecordId;
  struct Space {
    Space(const protocol::snapshots::NamespaceKeys& its_keys, const protocol::StateKind& its_kind,
          std::string its_name)
        : keys(its_keys), kind(its_kind), name_space(std::move(its_name)), index(its_kind) {}
    const protocol::snapshots::NamespaceKeys keys;
    const protocol::StateKind kind;
    const std::string name_space;
    NamespaceIndex index;
    std::int64_t changed = -1;  // RecordStore::changed() at the last read; -1: never read
    bool incomplete = false;    // some snapshots could not be read and are to be looked at again
    runtime::TimePoint looked{};
    bool reading = false;
    runtime::Event read;
  };
  using SharedSpace = std::shared_ptr<Space>;
  using Place = std::pair<RecordId, std::uint64_t>;  // folder, arithmetic

  SharedSpace space_of(const protocol::StateKind& kind, const std::string& name_space);
  /// Returns the longest usable state; looks for changes by others if none is known.
  runtime::Task<std::optional<NamespaceIndex::Match>> find(const protocol::FetchState& job, SharedSpace space,
                                                           const protocol::snapshots::PrefixNames& names);
  /// Returns the reason for a miss.
  static protocol::MissReason why_nothing(const protocol::FetchState& job, const Space& space,
                                          const protocol::snapshots::PrefixNames& names);
  runtime::Task<void> look(SharedSpace space);
  runtime::Task<void> read_news(SharedSpace space);
  bool is_slower(const protocol::FetchState& job, const NamespaceIndex::Match& match) const;

  const TierSettings settings_;
  const std::shared_ptr<TierFigures> figures_;
  const LoadingBytes loading_;
  runtime::RefOf<StoreReader> reader_;
  runtime::RefOf<StoreWriter> writer_;
  std::map<Place, SharedSpace> spaces_;
};

}  // namespace reprise::actors
