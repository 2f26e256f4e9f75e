#pragma once
// How fast entries age. The one that has not been used for longest goes first, where the time of an entry counts
// 1 / patience: patience 4 means that it may lie unused four times as long as others. Entries are of few kinds, by
// whether they are shared (taken where prompts part, or known prompts go on from them in three or more ways) and
// whether they were hit; a policy says how patient to be with each.
//
//   lru      all age alike.
//   forks    a shared one ages four times slower; one that was hit, twice slower; both, eight times. What several prompts
//            share comes back when a single conversation does not.
//   returns  as forks, but with shared ones the more patient the shorter memory is: 3, and as many times more as the
//            square of (a third of the time after which single prompts come back) over (the time after which they have
//            to go), 64 at most. Both times are those that it sees. Where single prompts go long before they can come
//            back, it is no use to keep them, and what is shared is kept instead; where they stay long enough, they are
//            worth as much as before.
//
// Others were tried on recorded traces and did not earn their place; docs/replay.md has the figures.
//
// Threading: one owner.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/cache/cache_entry.h"

namespace reprise::actors {

class EvictionPolicy {
 public:
  using Time = std::chrono::nanoseconds;
  virtual ~EvictionPolicy() = default;

  /// At least 1.
  virtual std::uint32_t patience(EntryKind kind) const = 0;
  /// A prompt came back to an entry that had not been used for so long, whether it was still there or evicted.
  virtual void returned(EntryKind, Time) {}
  /// An entry was evicted that had not been used for so long.
  virtual void evicted(EntryKind, Time) {}
};

/// As it stands now.
EntryKind kind_of(const CacheEntry& entry);

/// Null: there is no policy of this name.
std::unique_ptr<EvictionPolicy> make_eviction_policy(std::string_view name);
std::vector<std::string> eviction_policy_names();

}  // namespace reprise::actors
