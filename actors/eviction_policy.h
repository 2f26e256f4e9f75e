#pragma once
// Which entry is worth least. A policy gives an entry a value when it is made and at each use; the least
// valuable goes first, and among equals the least recently used one.
//
//   lru   all are worth the same.
//
// Others were tried on recorded traces (docs/replay.md) and did not earn their place.
//
// Threading: one owner.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/cache_entry.h"

namespace reprise::actors {

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  /// Of an entry that was just made or used.
  virtual double value(const CacheEntry& entry) = 0;
  /// An entry gave way. Policies that age take note.
  virtual void note_evicted(const CacheEntry&) {}
  /// Whether a use of an entry is a use of those above it.
  virtual bool uses_ancestors() const { return false; }
};

/// Null: there is no policy of this name.
std::unique_ptr<EvictionPolicy> make_eviction_policy(std::string_view name);
std::vector<std::string> eviction_policy_names();

}  // namespace reprise::actors
