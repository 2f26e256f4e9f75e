#pragma once
// The entries that may be evicted, in the order in which they should go. Leased ones are not in it.
//
// Order: expired ones; then by value, then by last use; pinned ones behind all others.
// Costs: log of the number of entries.
// Threading: one owner.

#include <chrono>
#include <set>

#include "actors/cache_entry.h"

namespace reprise::actors {

class EvictionQueue {
 public:
  using Time = std::chrono::nanoseconds;

  /// `ttl`: time to live since the last use; 0: for ever.
  explicit EvictionQueue(Time ttl) : ttl_(ttl) {}

  /// Its last use, value and pin must not change while it is in the queue.
  void add(CacheEntry& entry);
  void remove(CacheEntry& entry);  // does nothing if it is not in the queue

  /// Null: there is none.
  CacheEntry* first(Time now, bool allow_pinned) const;
  /// The one that has been expired for longest; null: none has.
  CacheEntry* expired(Time now, bool allow_pinned) const;

 private:
  struct LessRecent {
    bool operator()(const CacheEntry* a, const CacheEntry* b) const;
  };
  struct LessValuable {
    bool operator()(const CacheEntry* a, const CacheEntry* b) const;
  };

  bool has_expired(const CacheEntry& entry, Time now) const;

  Time ttl_;
  std::set<CacheEntry*, LessValuable> by_value_[2];  // [pinned]
  std::set<CacheEntry*, LessRecent> by_age_[2];      // [pinned]
};

}  // namespace reprise::actors
