#include "actors/cache/prefix_cache.h"

#include <stdexcept>
#include <utility>

#include "actors/cache/index_bytes.h"
#include "actors/cache/prefix_cache_parts.h"
#include "base/check.h"

namespace reprise::actors {

EntryInfo info_of(const CacheEntry& entry) {
  return {entry.id,       entry.snapshot, entry.length, entry.origin, entry.conversation,
          entry.last_use, entry.hits,     entry.leases, entry.pinned};
}

PrefixCache::Impl::Impl(PrefixCacheOptions given, std::unique_ptr<EvictionPolicy> its_policy)
    : options(std::move(given)),
      policy(std::move(its_policy)),
      queue(options.ttl, *policy),
      namespaces(tree, options.max_namespaces) {
  if (options.grid == 0) throw std::invalid_argument("the grid of a prefix cache cannot be 0");
}

PrefixCache::PrefixCache(PrefixCacheOptions options)
    : PrefixCache(std::move(options), make_eviction_policy()) {}
PrefixCache::PrefixCache(PrefixCacheOptions options, std::unique_ptr<EvictionPolicy> policy)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(policy))) {}
PrefixCache::~PrefixCache() = default;

// -- looking at it

std::optional<EntryInfo> PrefixCache::find(EntryId id) const {
  const auto at = impl_->entries.find(id);
  if (at == impl_->entries.end()) return std::nullopt;
  return info_of(at->second);
}

const CacheNamespaces& PrefixCache::namespaces() const {
  return impl_->namespaces;
}

PrefixCacheStats PrefixCache::stats() const {
  PrefixCacheStats stats = impl_->counted;
  stats.flights = impl_->flights.size();
  stats.path_tokens = impl_->tree.tokens();
  stats.namespaces = impl_->namespaces.size();
  stats.index_bytes = index_bytes(impl_->tree.nodes(), impl_->tree.tokens(), impl_->entries.size());
  return stats;
}

std::uint64_t PrefixCache::covered_tokens() const {
  return impl_->tree.covered_tokens();
}

void PrefixCache::check() const {
  impl_->tree.check();
  std::uint64_t in_tree = 0, leases = 0, pinned = 0;
  for (const auto& [id, entry] : impl_->entries) {
    leases += entry.leases;
    pinned += entry.pinned;
    REPRISE_CHECK(entry.queued == (entry.leases == 0),
                  "an entry is leased and queued for eviction, or neither");
    if (entry.node == nullptr) continue;
    ++in_tree;
    REPRISE_CHECK(entry.node->entry() == id && entry.node->depth() == entry.length,
                  "a cache entry does not match its tree node");
  }
  REPRISE_CHECK(in_tree == impl_->counted.entries && leases == impl_->counted.leases,
                "the counts of cache entries or leases are wrong");
  REPRISE_CHECK(pinned == impl_->counted.pinned && pinned <= impl_->options.max_pinned,
                "the count of pinned entries is wrong or over its limit");
  REPRISE_CHECK(impl_->tree.tokens() <= impl_->options.max_path_tokens || !impl_->tree.has_idle_leaf(),
                "the tree's tokens are over the limit although an idle leaf could be removed");
}

}  // namespace reprise::actors
