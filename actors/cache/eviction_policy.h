#pragma once
// How fast an entry ages. The one that has not been used for longest goes first, where the time of an entry
// counts 1 / patience: patience 4 means that it may lie unused four times as long as others.
//
//   lru     all age alike.
//   forks   an entry that was taken where prompts part, or from which known prompts go on in three or more
//           ways, ages four times slower; one that was hit, twice slower; both, eight times. What several
//           prompts share comes back when a single conversation does not.
//
// Others were tried on recorded traces and did not earn their place; docs/replay.md has the figures.
//
// Threading: pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/cache/cache_entry.h"

namespace reprise::actors {

/// The patience with an entry, at least 1, as it stands now. A policy uses few different ones: the eviction
/// queue looks at each of them.
using EvictionPolicy = std::uint32_t (*)(const CacheEntry&);

/// Null: there is no policy of this name.
EvictionPolicy find_eviction_policy(std::string_view name);
std::vector<std::string> eviction_policy_names();

}  // namespace reprise::actors
