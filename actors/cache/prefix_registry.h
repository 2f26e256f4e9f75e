#pragma once
// PrefixRegistry: the actor that owns a model's PrefixCache. It decides which snapshots are kept; the device
// worker holds them.
//
// Adoption. The worker reports every checkpoint of a prefill, with the request's plan (protocol/jobs/checkpoints.h).
// Checkpoints that were taken are inserted and adopted within `budget_bytes`; the worker counts the bytes, as
// it knows which pages are shared. Other entries are evicted first if needed; an entry that does not fit even
// alone is dropped at once, with a warning. Reports and messages of requests arrive in any order: a request
// states how many reports it expects and waits until they are handled. Reports of another model generation
// or of an unknown flight adopt nothing; a snapshot that is not adopted is freed with its sequence.
//
// Wrong states. If a state proves wrong, its entry and all below are dropped, here and in the tiers. Flights
// that were computing then may have restored it, so their checkpoints of the same tokens are refused, and so
// is what a tier had been asked for (actors/cache/flights.h).
//
// Following. A prompt that shares more with a flight than with any entry waits for it: the leading flight is
// asked for a checkpoint at the branch point, unless it is already past it. The wait ends with that
// checkpoint, its failure, or the end of either flight.
//
// Lower tiers (protocol/tier.h). When a prompt is announced, the tier below is asked for a deeper state, and
// the lookup waits for it. The request loads that state and takes a checkpoint of it, which is inserted like
// any other. Adopted entries are offered to the tier (actors/cache/tier_client.h).
//
// Eviction. Leased entries cannot be reclaimed. If a reclaim frees less than requested, the registry notifies
// the worker when a lease has ended; the worker knows of adoptions itself. Eviction ahead of need spares
// pinned entries and the entry created or used last, so that a conversation alone in memory keeps the state
// it will return to.
//
// Failure: an exception in a handler restarts it empty: flights, their leases and all entries are forgotten,
// pending asks fail, and the worker drops all adopted snapshots before new ones are adopted. Until it is
// bound, it keeps nothing. Running requests continue; their messages about unknown flights are ignored. After
// more than kMaxRestarts failures within kRestartWindow, the supervisor fails the model.
//
// Threading: an actor on the pool. Reentrant: the cache may change at every co_await.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/cache/flights.h"
#include "actors/cache/prefix_cache.h"
#include "actors/cache/registry_figures.h"
#include "actors/cache/tier_client.h"
#include "protocol/cache_view.h"
#include "protocol/jobs/snapshots.h"
#include "protocol/registry.h"
#include "protocol/tier.h"
#include "runtime/actor.h"

namespace reprise::actors {

/// Sent by a registry that has started or restarted: it must be bound.
struct RegistryStarted {
  std::string model;
};

struct RegistryOptions : RegistrySettings {
  std::string model{};                             // identifies it to the supervisor
  runtime::Ref<RegistryStarted> supervisor{};      // may be null
  std::shared_ptr<RegistryFigures> figures{};      // null: the registry creates its own
  std::function<void(const std::string&)> warn{};  // may be empty
  protocol::TierRef tier{};                        // below the device; may be null
};

/// Sets the worker and generation of a loaded model, also after a reload.
struct BindRegistry {
  protocol::SnapshotRef worker;
  protocol::ArchId arch;
  protocol::StateKind kind{};                   // format of the model's states, for lower tiers
  std::function<double()> seconds_per_token{};  // prefill time; 0: unknown. May be empty
  std::function<bool()> device_is_idle{};       // may be empty
};

class PrefixRegistry : public runtime::Actor {
 public:
  using Accepts =
      runtime::Messages<protocol::Announce, protocol::Lookup, protocol::EndLease, protocol::CheckpointTaken,
                        protocol::Settle, protocol::Pin, protocol::EndFlight, protocol::DropEntry,
                        protocol::DropNamespaces, protocol::Reclaim, protocol::ViewCache, BindRegistry>;
  static constexpr const char* kName = "registry";
  static constexpr std::uint32_t kMaxRestarts = 3;
  static constexpr std::chrono::minutes kRestartWindow{1};
  static constexpr std::uint32_t kConcurrentHandlers = 65'536;

  explicit PrefixRegistry(RegistryOptions options);

  void on_start();
  runtime::Task<protocol::Announced> on(protocol::Announce announce);
  runtime::Task<protocol::LookedUp> on(protocol::Lookup lookup);
  void on(protocol::EndLease lease);
  runtime::Task<void> on(protocol::CheckpointTaken taken);
  runtime::Task<protocol::FlightSettled> on(protocol::Settle settle);
  protocol::Pinned on(const protocol::Pin& pin);
  void on(protocol::EndFlight end);
  void on(protocol::DropEntry drop);
  protocol::Nothing on(protocol::DropNamespaces drop);
  protocol::CacheView on(protocol::ViewCache view);
  runtime::Task<protocol::Reclaimed> on(protocol::Reclaim reclaim);
  void on(BindRegistry bind);

 private:
  CacheTime now() const;
  /// Returns the prefix that a lookup must see to restore at most `max_tokens`: one token is always left to
  /// compute.
  static std::span<const TokenId> begin_of(std::span<const TokenId> prompt, std::uint32_t max_tokens) {
    return prompt.first(std::min<std::size_t>(prompt.size(), std::size_t{max_tokens} + 1));
  }
  /// Call before any co_await, after which the generation may differ.
  protocol::SnapshotId id_of(std::uint64_t number) const {
    return {.generation = generation_, .number = number};
  }
  /// Waits until the leader has passed the position, or until `gone`. Returns true if it has; a lookup then
  /// finds the checkpoint, unless it was skipped.
  runtime::Task<bool> follow(Leader leader, runtime::CancelToken gone);
  /// Returns true if there is an entry at the position afterwards.
  runtime::Task<bool> insert(protocol::CheckpointTaken taken);
  void begin_fetch(protocol::FlightNumber number, Flight& flight, std::uint32_t restorable);
  runtime::Task<void> fetch(protocol::FlightNumber number, protocol::FetchState request);
  /// Fills in the miss reason and the tokens it costs.
  void explain(Flight& flight, const Found& best, protocol::LookedUp& answer);
  runtime::Task<protocol::Dropped> drop(protocol::SnapshotId snapshot);
  /// Drops snapshots whose entries are gone; returns the bytes freed.
  runtime::Task<std::uint64_t> drop_all(std::vector<protocol::SnapshotId> snapshots);
  void drop_later(protocol::SnapshotId snapshot);
  /// Returns the next entry for a reclaim, or nullopt if it may take no more.
  std::optional<EntryInfo> next_for(const protocol::Reclaim& reclaim, bool has_given);
  /// Returns the number of entries, 1 to 16, that make up these bytes at the average size.
  std::size_t likely_enough(std::uint64_t bytes) const;
  runtime::Task<bool> adopt(protocol::SnapshotId snapshot, EntryId entry);
  std::uint64_t budget_for_snapshots() const;
  /// Tells the worker, if a reclaim fell short, that there is more to reclaim.
  void offer();
  void end_lease(Flight& flight, protocol::MissReason failed);
  runtime::Task<void> expire_now_and_then();
  void expire();
  void publish();
  void plot(const PrefixCacheStats& stats) const;

  RegistryOptions options_;
  PrefixCache cache_;
  protocol::SnapshotRef worker_;
  protocol::StateKind kind_{};  // state format of the last model bound
  std::uint32_t generation_ = 0;
  protocol::ArchId arch_{};
  bool fell_short_ = false;  // the last reclaim freed less than requested
  EntryId latest_ = 0;       // entry created or used last
  std::uint64_t adopted_bytes_ = 0;
  Flights flights_{cache_};
  TierClient tier_;
  std::uint64_t brought_tokens_ = 0;  // restored from lower tiers beyond the lookups' results
  std::array<std::uint64_t, protocol::kMissReasons> by_reason_{};
  std::array<std::uint64_t, protocol::kMissReasons> lost_tokens_{};
  bool warned_ = false;
};

}  // namespace reprise::actors
