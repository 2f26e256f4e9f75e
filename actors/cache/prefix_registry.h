#pragma once
// PrefixRegistry: the actor around a model's PrefixCache. It decides which snapshots are kept; the device
// worker holds them.
//
// The worker reports every checkpoint of a prefill, with the plan that the request gave it (protocol/job.h). What
// was taken is inserted and adopted, within `budget_bytes`, counted by the worker, who knows which pages are
// shared; what stands in the way is evicted first. An entry that does not fit even when all others are gone goes
// again at once, with a warning. Reports and what requests say come in any order: a request says how many reports
// it knows of, and waits until these have been dealt with. A report of another generation of the model, or of a
// flight that has ended, adopts what it can and wakes nobody; a snapshot that is not adopted goes with its
// sequence.
//
// A prompt that shares more with one in flight than with any entry waits: the leader is asked for a
// checkpoint where the two part, unless it has passed that place. The wait ends with that checkpoint, with
// its failure or with the leader's end, whichever comes first.
//
// Where there is a tier below (protocol/tier.h), it is asked for a deeper state as soon as a prompt is announced; the
// lookup waits for what it brings. The request loads that, and takes a checkpoint there, which comes here like any
// other: what is used below stands above again. What is adopted is offered to the tier, spaced places and those inside
// replies when the device is idle. Prompts and gains of fewer than kWorthFetching tokens are not worth its while. A tier
// that does not answer in time is left alone for a while: it costs one wait, not every request's.
//
// Leased entries are nobody's to reclaim. A registry that had less to give than the worker asked for says so when
// it has more: when a lease has ended. What it adopts the worker knows of. Ahead of need neither pinned ones go nor
// the entry that was made or used last: a conversation that fills the memory alone keeps what it comes back to.
//
// Failure: what leaves a handler makes it start anew, with nothing: the prompts in flight, their leases and
// all entries are forgotten, whoever was waiting for an answer is told that there is none, and before
// anything is adopted again the worker drops what the one before had adopted. Until it is bound it knows
// nothing and keeps nothing. Requests that run go on; what they say of flights that it does not know is
// ignored. More than kMostRestarts failures within kRestartWindow, and its supervisor fails the model.
//
// Threading: an actor on the pool. Re-entrant: the cache may change at every co_await.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/cache/prefix_cache.h"
#include "actors/cache/registry_figures.h"
#include "protocol/cache_view.h"
#include "protocol/job.h"
#include "protocol/registry.h"
#include "protocol/tier.h"
#include "runtime/actor.h"
#include "runtime/event.h"

namespace reprise::actors {

using WorkerRef = runtime::Ref<protocol::AdoptKvSnapshot, protocol::DropKvSnapshot, protocol::DropAdopted,
                               protocol::AddCheckpoint, protocol::MoreToReclaim, protocol::ReadKv>;

/// From a registry that has started, anew or for the first time: it wants to be bound.
struct RegistryStarted {
  std::string model;
};

struct RegistryOptions : RegistrySettings {
  std::string model{};                             // whose it is, to its supervisor
  runtime::Ref<RegistryStarted> supervisor{};      // may be nobody
  std::shared_ptr<RegistryFigures> figures{};      // none: the registry makes its own
  std::function<void(const std::string&)> warn{};  // may be empty
  protocol::TierRef tier{};                        // below the device; may be nobody
};

/// The snapshots of one loaded model; after a fault, of its successor.
struct BindRegistry {
  WorkerRef worker;
  protocol::ArchId arch;
  protocol::StateKind kind{};                   // of its states, for the tier below
  std::function<double()> seconds_per_token{};  // that its device computes in; 0: not known. May be empty
  std::function<bool()> device_is_idle{};       // may be empty
};

class PrefixRegistry : public runtime::Actor {
 public:
  using Accepts =
      runtime::Messages<protocol::Announce, protocol::Lookup, protocol::EndLease, protocol::CheckpointTaken,
                        protocol::Settle, protocol::Pin, protocol::EndFlight, protocol::DropEntry,
                        protocol::DropNamespaces, protocol::Reclaim, protocol::ViewCache, BindRegistry>;
  static constexpr const char* kName = "registry";
  static constexpr std::uint32_t kMostRestarts = 3;
  static constexpr std::chrono::minutes kRestartWindow{1};
  static constexpr std::uint32_t kConcurrentHandlers = 65'536;
  static constexpr std::uint32_t kWorthFetching = 64;

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
  struct Flight {
    FlightId in_cache = 0;
    bool landed = false;  // it is not in the cache any more, and nobody follows it
    EntryId lease = 0;    // 0: none
    std::string name_space;
    SharedTokens prompt;
    std::uint32_t most_tokens = UINT32_MAX;  // to restore
    std::uint32_t known = 0;
    bool diverges = false;     // from what was known
    std::uint32_t behind = 0;  // tokens of an entry, behind that place
    std::uint32_t lost = 0;    // tokens that the last lookup had to say were lost,
    protocol::MissReason why_lost = protocol::MissReason::kNone;
    protocol::SequenceId sequence{};  // none: not computing yet
    std::vector<std::uint32_t> wanted;
    std::uint32_t passed = 0;     // the place of its last checkpoint, taken or missed
    std::uint32_t reports = 0;    // of its checkpoints, that have come
    std::uint32_t settled = 0;    // of these, adopted or given up
    std::uint32_t kept = 0;       // tokens of the prompt up to the deepest that was adopted
    bool cut_off = false;         // its worker has gone: no report will come
    bool fetching = false;        // the tier below was asked
    protocol::Fetched fetched{};  // what it brought, until a lookup takes it
    std::uint32_t looked_up = 0;  // tokens that the last lookup found here
    runtime::Event changed;       // any of these
  };

  CacheTime now() const;
  /// What a lookup must see of a prompt to restore so many of its tokens at most: one always has to be left.
  static std::span<const TokenId> begin_of(std::span<const TokenId> prompt, std::uint32_t most_tokens) {
    return prompt.first(std::min<std::size_t>(prompt.size(), std::size_t{most_tokens} + 1));
  }
  /// At once, not after a co_await: the generation may be another by then.
  protocol::SnapshotId id_of(std::uint64_t number) const {
    return {.generation = generation_, .number = number};
  }
  runtime::Task<bool> follow(Leader leader);
  /// Whether the flight has passed that place, or ended, by the deadline.
  runtime::Task<bool> passes(protocol::FlightNumber flight, std::uint32_t at, runtime::TimePoint deadline);
  /// Whether an entry stands there now.
  runtime::Task<bool> insert(protocol::CheckpointTaken taken);
  void begin_fetch(protocol::FlightNumber number, Flight& flight, std::uint32_t restorable);
  runtime::Task<void> fetch(protocol::FlightNumber number, protocol::FetchState wish);
  void offer_below(const protocol::CheckpointTaken& taken, Origin origin);
  void land(Flight& flight);
  /// Why no more was restored, and how much that costs.
  void explain(Flight& flight, const Found& best, protocol::LookedUp& answer);
  runtime::Task<protocol::Dropped> drop(protocol::SnapshotId snapshot);
  /// Of snapshots whose entries are gone; bytes that came free.
  runtime::Task<std::uint64_t> drop_all(std::vector<protocol::SnapshotId> snapshots);
  void drop_later(protocol::SnapshotId snapshot);
  /// Which entry a reclaim takes next; none: it has no more to take.
  std::optional<EntryInfo> next_for(const protocol::Reclaim& reclaim, bool has_given);
  /// So many entries as these bytes are, by what one has on average.
  std::size_t likely_enough(std::uint64_t bytes) const;
  runtime::Task<bool> adopt(protocol::SnapshotId snapshot, EntryId entry);
  std::uint64_t budget_for_snapshots() const;
  void pass(Flight& flight, std::uint32_t up_to);
  /// There is more to reclaim than there was.
  void offer();
  void end_lease(Flight& flight, protocol::MissReason failed);
  runtime::Task<void> expire_now_and_then();
  void expire();
  void publish();
  void plot(const PrefixCacheStats& stats) const;

  RegistryOptions options_;
  PrefixCache cache_;
  WorkerRef worker_;
  BindRegistry bound_{};  // what it was told last
  std::uint32_t generation_ = 0;
  protocol::ArchId arch_{};
  bool fell_short_ = false;  // of what the worker wanted to reclaim last
  EntryId latest_ = 0;       // made or used last
  std::uint64_t adopted_bytes_ = 0;
  std::unordered_map<protocol::FlightNumber, Flight> flights_;
  std::unordered_map<FlightId, protocol::FlightNumber> numbers_;  // of flights in the cache
  runtime::TimePoint tier_rests_until_{};
  std::uint64_t brought_tokens_ = 0;  // that lookups here had not found
  std::array<std::uint64_t, protocol::kMissReasons> by_reason_{};
  std::array<std::uint64_t, protocol::kMissReasons> lost_tokens_{};
  bool warned_ = false;
};

}  // namespace reprise::actors
