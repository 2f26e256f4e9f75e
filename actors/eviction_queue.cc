#include "actors/eviction_queue.h"

#include <tuple>

#include "traces/check.h"

namespace reprise::actors {

bool EvictionQueue::LessRecent::operator()(const CacheEntry* a, const CacheEntry* b) const {
  return std::tie(a->last_use, a->use_order) < std::tie(b->last_use, b->use_order);
}

bool EvictionQueue::LessValuable::operator()(const CacheEntry* a, const CacheEntry* b) const {
  return std::tie(a->value, a->last_use, a->use_order) < std::tie(b->value, b->last_use, b->use_order);
}

void EvictionQueue::add(CacheEntry& entry) {
  REPRISE_CHECK(!entry.queued, "an entry is queued twice");
  const bool first = by_value_[entry.pinned].insert(&entry).second;
  REPRISE_CHECK(first && by_age_[entry.pinned].insert(&entry).second, "two uses have one place in the order");
  entry.queued = true;
}

void EvictionQueue::remove(CacheEntry& entry) {
  if (!entry.queued) return;
  by_value_[entry.pinned].erase(&entry);
  by_age_[entry.pinned].erase(&entry);
  entry.queued = false;
}

bool EvictionQueue::has_expired(const CacheEntry& entry, Time now) const {
  return ttl_ > Time::zero() && now - entry.last_use > ttl_;
}

CacheEntry* EvictionQueue::expired(Time now, bool allow_pinned) const {
  CacheEntry* oldest = nullptr;
  for (const bool pinned : {false, true}) {
    const auto& queue = by_age_[pinned];
    if (queue.empty() || (pinned && !allow_pinned) || !has_expired(**queue.begin(), now)) continue;
    if (oldest == nullptr || LessRecent{}(*queue.begin(), oldest)) oldest = *queue.begin();
  }
  return oldest;
}

CacheEntry* EvictionQueue::first(Time now, bool allow_pinned) const {
  if (CacheEntry* entry = expired(now, allow_pinned)) return entry;
  for (const bool pinned : {false, true}) {
    if (!by_value_[pinned].empty() && (!pinned || allow_pinned)) return *by_value_[pinned].begin();
  }
  return nullptr;
}

}  // namespace reprise::actors
