#pragma once
// What is evicted first.
//
// EvictionPolicy: how fast entries age. The one that has not been used for longest goes first, where the time of an entry counts
// 1 / patience: patience 4 means that it may lie unused four times as long as others. Entries are of few kinds, by
// whether they are shared (taken where prompts part, or known prompts go on from them in three or more ways) and
// whether they were hit; a policy says how patient to be with each.
//
// The policy that ships, `returns`, is twice as patient with an entry that was hit, and follows what it sees. With shared
// entries it is the more patient the shorter memory is: 3 times, times the square of (the time within which three tenths
// of the returns to single ones come) over (the time after which single ones have to go), 64 at most: where single
// prompts go before they can come back, it is no use to keep them, and what is shared is kept instead. Where they stay
// longer than that the patience falls slowly, to 2. And where even shared ones that were never hit go before they come
// back, it spares the old ones of them and lets young ones go: some live to be used instead of none.
//
// Others were tried on recorded traces and did not earn their place: tools/lab/replay_policies.h has them,
// docs/lab/eviction-policies.md the figures.
//
// Threading: one owner.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "actors/cache/cache_entry.h"

namespace reprise::actors {

class EvictionPolicy {
 public:
  using Time = std::chrono::nanoseconds;
  virtual ~EvictionPolicy() = default;

  /// At least 1.
  virtual double patience(EntryKind kind) const = 0;
  /// An entry of this kind was made at this time, or used.
  virtual void queued(EntryKind, Time) {}
  /// A prompt came back to an entry that had not been used for so long, whether it was still there or evicted.
  virtual void returned(EntryKind, Time) {}
  /// An entry was evicted that had not been used for so long.
  virtual void evicted(EntryKind, Time) {}
  /// Of `count` entries of this kind the oldest, not used for so long, should go: whether a young one goes in its stead.
  virtual bool spares_oldest(EntryKind, std::size_t, Time) const { return false; }
};

/// A time unused, as a policy with this patience feels it. None is negative.
inline EvictionPolicy::Time felt_age(EvictionPolicy::Time unused, double patience) {
  const double felt = static_cast<double>(unused.count()) / patience;
  return EvictionPolicy::Time(felt > 0 ? static_cast<std::int64_t>(felt) : 0);
}

/// As it stands now.
EntryKind kind_of(const CacheEntry& entry);

/// The one that ships.
std::unique_ptr<EvictionPolicy> make_eviction_policy();

/// The entries that may be evicted, in the order in which they should go. Leased ones are not in it.
///
/// Order: expired ones, by the cache's time to live or by their own; then by the time since the last use over the patience
/// with its kind, longest first, but where the policy spares the oldest of that kind the newest but one instead; pinned ones
/// behind all others.
/// Costs: log of the number of entries, for each kind there is.
class EvictionQueue {
 public:
  using Time = std::chrono::nanoseconds;

  /// `ttl`: time to live since the last use; 0: for ever. `policy` must outlive it.
  EvictionQueue(Time ttl, const EvictionPolicy& policy) : ttl_(ttl), policy_(policy) {}

  /// Its last use, kind, time to live and pin must not change while it is in the queue.
  void add(CacheEntry& entry);
  void remove(CacheEntry& entry);  // does nothing if it is not in the queue

  /// Null: there is none.
  CacheEntry* first(Time now, bool allow_pinned) const;
  /// One that has, of those that the cache's own time has ended the first; null: none has.
  CacheEntry* expired(Time now, bool allow_pinned) const;

 private:
  struct LessRecent {
    bool operator()(const CacheEntry* a, const CacheEntry* b) const;
  };
  struct EndsBefore {
    bool operator()(const CacheEntry* a, const CacheEntry* b) const;
  };
  using ByAge = std::set<CacheEntry*, LessRecent>;
  using ByKind = std::map<EntryKind, ByAge>;  // none of them empty

  static CacheEntry* oldest(const ByKind& queues);
  CacheEntry* least_valuable(const ByKind& queues, Time now) const;

  Time ttl_;
  const EvictionPolicy& policy_;
  ByKind queues_[2];                                  // [pinned]
  std::set<CacheEntry*, EndsBefore> short_lived_[2];  // those with a time to live of their own
};

/// Which entries a conversation has made, so that one alone cannot hold more than its share.
class ConversationEntries {
 public:
  /// An entry of conversation 0 is nobody's.
  void add(CacheEntry& entry);
  void remove(const CacheEntry& entry);
  /// How many its conversation has made.
  std::size_t count(const CacheEntry& entry) const;
  /// The same, of this origin.
  std::size_t count(const CacheEntry& entry, protocol::Origin origin) const;
  /// Of those of this origin that can go, but for `newest`, the one without which the gap between its neighbours is
  /// smallest, by length; among equals the one that was used first. Null: none can.
  CacheEntry* closest_to_others(const CacheEntry& newest, protocol::Origin origin) const;
  /// Of those that can go, but for `newest`, the one whose time unused over its patience is longest; null: none can.
  CacheEntry* least_valuable(const CacheEntry& newest, std::chrono::nanoseconds now,
                             const EvictionPolicy& policy) const;

 private:
  // Clients name conversations: one's name says nothing of what stands in another's namespace.
  using Key = std::pair<const CacheNamespace*, std::uint64_t>;
  static Key key_of(const CacheEntry& entry) { return {entry.home, entry.conversation}; }
  /// None: it has made none.
  const std::vector<CacheEntry*>& made_by(const CacheEntry& entry) const;

  std::map<Key, std::vector<CacheEntry*>> made_;  // none of them empty
};

}  // namespace reprise::actors
