#pragma once
// A prefix cache as people may see it (protocol/cache_view.h): of the tree in the scope those nodes that were walked
// last, with every node's way to the root.
//
// Costs: a node for each that is shown, and a look at each of their children.
// Threading: the owner of the cache.

#include "actors/cache/prefix_cache.h"
#include "protocol/cache_view.h"
#include "protocol/tier.h"

namespace reprise::actors {

protocol::CacheView view_of(const PrefixCache& cache, const protocol::ViewCache& wish, CacheTime now,
                            const protocol::StateKind& kind);

}  // namespace reprise::actors
