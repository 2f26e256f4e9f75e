#pragma once
// Decides which entry is evicted first.
//
// An EvictionPolicy sets how fast entries age: the entry with the largest idle time divided by patience is
// evicted first. With patience 4 it may be idle four times as long as with 1. Entries fall into few kinds:
// whether they are shared (taken where prompts diverge, or continued in three or more ways) and whether they
// were hit. A policy assigns a patience to each kind.
//
// The default policy, `Returns`, adapts to the workload. It doubles the patience for entries that were hit.
// For shared entries, let early be the 0.3 quantile of the times after which prompts return to unshared
// entries, and stay the age at which unshared entries are evicted. Patience is 3 * (early / stay)^2, at most
// 64, if early > stay: if unshared entries are evicted before they can be reused, memory is better spent on
// shared ones. Otherwise it falls slowly to 2. If even shared entries without a hit are evicted before they
// return, it keeps old ones and evicts young ones, so that some are reused instead of none.
//
// Other policies did not do better on recorded traces: see tools/lab/replay_policies.h and
// docs/lab/eviction-policies.md.
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

  /// Returns the patience with this kind, at least 1.
  virtual double patience(EntryKind kind) const = 0;
  /// An entry of this kind was created or used at this time.
  virtual void queued(EntryKind, Time) {}
  /// A prompt returned to an entry after this idle time, whether it was still present or evicted.
  virtual void returned(EntryKind, Time) {}
  virtual void evicted(EntryKind, Time) {}
  /// Given `count` entries of this kind, the oldest idle for this time: returns true if a young one should be
  /// evicted instead.
  virtual bool spares_oldest(EntryKind, std::size_t, Time) const { return false; }
};

/// Idle time divided by patience, at least 0.
inline EvictionPolicy::Time felt_age(EvictionPolicy::Time unused, double patience) {
  const double felt = static_cast<double>(unused.count()) / patience;
  return EvictionPolicy::Time(felt > 0 ? static_cast<std::int64_t>(felt) : 0);
}

EntryKind kind_of(const CacheEntry& entry);

std::unique_ptr<EvictionPolicy> make_eviction_policy();

/// The evictable entries in order of eviction; leased entries are not in it.
///
/// Order: expired entries first, by the cache's TTL or their own; then by idle time over the patience with
/// their kind, longest first, except that if the policy spares the oldest of that kind, the second newest of
/// it is taken; pinned entries last.
///
/// Costs: logarithmic in the number of entries, per kind.
class EvictionQueue {
 public:
  using Time = std::chrono::nanoseconds;

  /// `ttl`: since the last use; 0: unlimited. `policy` must outlive the queue.
  EvictionQueue(Time ttl, const EvictionPolicy& policy) : ttl_(ttl), policy_(policy) {}

  /// The entry's last use, kind, TTL and pin must not change while it is queued.
  void add(CacheEntry& entry);
  void remove(CacheEntry& entry);

  /// Null: none.
  CacheEntry* first(Time now, bool allow_pinned) const;
  /// Returns an expired entry, or null; those beyond the cache's TTL come first.
  CacheEntry* expired(Time now, bool allow_pinned) const;

 private:
  struct LessRecent {
    bool operator()(const CacheEntry* a, const CacheEntry* b) const;
  };
  struct EndsBefore {
    bool operator()(const CacheEntry* a, const CacheEntry* b) const;
  };
  using ByAge = std::set<CacheEntry*, LessRecent>;
  using ByKind = std::map<EntryKind, ByAge>;

  static CacheEntry* oldest(const ByKind& queues);
  CacheEntry* least_valuable(const ByKind& queues, Time now) const;

  Time ttl_;
  const EvictionPolicy& policy_;
  ByKind queues_[2];                                  // indexed by pinned
  std::set<CacheEntry*, EndsBefore> short_lived_[2];  // entries with a TTL of their own
};

/// The entries created by each conversation, to limit its share.
class ConversationEntries {
 public:
  /// Ignores entries of conversation 0.
  void add(CacheEntry& entry);
  void remove(const CacheEntry& entry);
  /// Returns how many entries the entry's conversation has created.
  std::size_t count(const CacheEntry& entry) const;
  std::size_t count(const CacheEntry& entry, protocol::Origin origin) const;
  /// Returns the evictable entry of this origin, other than `newest`, whose removal leaves the smallest gap
  /// between its neighbors' lengths; among equals the least recently used. Null: none.
  CacheEntry* closest_to_others(const CacheEntry& newest, protocol::Origin origin) const;
  /// Returns the evictable entry, other than `newest`, with the largest idle time over patience. Null: none.
  CacheEntry* least_valuable(const CacheEntry& newest, std::chrono::nanoseconds now,
                             const EvictionPolicy& policy) const;

 private:
  // Conversation names are chosen by clients and thus only unique within a namespace.
  using Key = std::pair<const CacheNamespace*, std::uint64_t>;
  static Key key_of(const CacheEntry& entry) { return {entry.home, entry.conversation}; }
  const std::vector<CacheEntry*>& made_by(const CacheEntry& entry) const;

  std::map<Key, std::vector<CacheEntry*>> made_;
};

}  // namespace reprise::actors
