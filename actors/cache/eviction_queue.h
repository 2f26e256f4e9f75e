#pragma once
// The entries that may be evicted, in the order in which they should go. Leased ones are not in it.
//
// Order: expired ones, by the cache's time to live or by their own; then by the time since the last use over the patience
// with its kind, longest first, but where the policy spares the oldest of that kind the newest but one instead; pinned ones
// behind all others.
// Costs: log of the number of entries, for each kind there is.
// Threading: one owner.

#include <chrono>
#include <map>
#include <set>

#include "actors/cache/cache_entry.h"
#include "actors/cache/eviction_policy.h"

namespace reprise::actors {

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

}  // namespace reprise::actors
