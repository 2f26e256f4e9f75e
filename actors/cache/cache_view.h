#pragma once
// Builds the view of a prefix cache for users (protocol/cache_view.h): the most recently walked nodes within
// the scope, each with its path to the root.
//
// Costs: proportional to the nodes shown and their children.
//
// Threading: the owner of the cache.

#include "actors/cache/prefix_cache.h"
#include "protocol/cache_view.h"
#include "protocol/tier.h"

namespace reprise::actors {

protocol::CacheView view_of(const PrefixCache& cache, const protocol::ViewCache& request, CacheTime now,
                            const protocol::StateKind& kind);

}  // namespace reprise::actors
