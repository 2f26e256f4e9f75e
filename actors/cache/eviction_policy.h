#pragma once
// How fast entries age. The one that has not been used for longest goes first, where the time of an entry counts
// 1 / patience: patience 4 means that it may lie unused four times as long as others. Entries are of few kinds, by
// whether they are shared (taken where prompts part, or known prompts go on from them in three or more ways) and
// whether they were hit; a policy says how patient to be with each.
//
// The policy that ships, `returns`, is twice as patient with an entry that was hit, and follows what it sees. With shared
// entries it is the more patient the shorter memory is: 3 times, times the square of (the time within which three tenths
// of the returns to single ones come) over (the time after which single ones have to go), 64 at most: where single
// prompts go before they can come back, it is no use to keep them, and what is shared is kept instead. Where they stay
// longer than that the patience falls slowly, to 2. And where even shared ones that were never hit go before they come
// back, it spares the old ones of them and lets young ones go (return_times.h): some live to be used instead of none.
//
// Others were tried on recorded traces and did not earn their place: tools/lab/replay_policies.h has them,
// docs/lab/eviction-policies.md the figures.
//
// Threading: one owner.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

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

}  // namespace reprise::actors
