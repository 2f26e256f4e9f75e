#pragma once
// Which entries a conversation has made, so that one alone cannot hold more than its share.
//
// Threading: the owner of the cache.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "actors/cache/cache_entry.h"
#include "actors/cache/eviction_policy.h"

namespace reprise::actors {

class ConversationEntries {
 public:
  /// An entry of conversation 0 is nobody's.
  void add(CacheEntry& entry) {
    if (entry.conversation != 0) made_[key_of(entry)].push_back(&entry);
  }
  void remove(const CacheEntry& entry) {
    const auto found = made_.find(key_of(entry));
    if (found == made_.end()) return;
    std::erase(found->second, &entry);
    if (found->second.empty()) made_.erase(found);
  }
  /// How many its conversation has made.
  std::size_t count(const CacheEntry& entry) const {
    const auto found = made_.find(key_of(entry));
    return found == made_.end() ? 0 : found->second.size();
  }
  /// The same, of this origin.
  std::size_t count(const CacheEntry& entry, protocol::Origin origin) const {
    const auto found = made_.find(key_of(entry));
    if (found == made_.end()) return 0;
    return static_cast<std::size_t>(
        std::count_if(found->second.begin(), found->second.end(),
                      [&](const CacheEntry* one) { return one->origin == origin; }));
  }
  /// Of those of this origin that can go, but for `newest`, the one without which the gap between its neighbours is
  /// smallest, by length; among equals the one that was used first. Null: none can.
  CacheEntry* closest_to_others(const CacheEntry& newest, protocol::Origin origin) const {
    const auto found = made_.find(key_of(newest));
    if (found == made_.end()) return nullptr;
    std::vector<CacheEntry*> sorted;
    std::copy_if(found->second.begin(), found->second.end(), std::back_inserter(sorted),
                 [&](const CacheEntry* one) { return one->origin == origin; });
    std::sort(sorted.begin(), sorted.end(), [](const CacheEntry* a, const CacheEntry* b) {
      return std::pair(a->length, a->use_order) < std::pair(b->length, b->use_order);
    });
    CacheEntry* closest = nullptr;
    std::uint32_t least_gap = UINT32_MAX;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      CacheEntry* entry = sorted[i];
      if (entry == &newest || !entry->queued || entry->pinned) continue;
      const std::uint32_t before = i == 0 ? 0 : sorted[i - 1]->length;
      const std::uint32_t gap = i + 1 == sorted.size() ? UINT32_MAX : sorted[i + 1]->length - before;
      if (closest != nullptr && gap >= least_gap) continue;
      closest = entry;
      least_gap = gap;
    }
    return closest;
  }
  /// Of those that can go, but for `newest`, the one whose time unused over its patience is longest; null: none can.
  CacheEntry* least_valuable(const CacheEntry& newest, std::chrono::nanoseconds now,
                             const EvictionPolicy& policy) const {
    const auto found = made_.find(key_of(newest));
    if (found == made_.end()) return nullptr;
    CacheEntry* least = nullptr;
    const auto age = [&](const CacheEntry& entry) {
      return felt_age(now - entry.last_use, policy.patience(entry.kind));
    };
    for (CacheEntry* entry : found->second) {
      if (entry == &newest || !entry->queued || entry->pinned) continue;
      const bool before = least == nullptr || age(*entry) > age(*least) ||
                          (age(*entry) == age(*least) && entry->use_order < least->use_order);
      if (before) least = entry;
    }
    return least;
  }

 private:
  // Clients name conversations: one's name says nothing of what stands in another's namespace.
  using Key = std::pair<const CacheNamespace*, std::uint64_t>;
  static Key key_of(const CacheEntry& entry) { return {entry.home, entry.conversation}; }

  std::map<Key, std::vector<CacheEntry*>> made_;  // none of them empty
};

}  // namespace reprise::actors
