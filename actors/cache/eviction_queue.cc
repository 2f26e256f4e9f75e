#include "actors/cache/eviction_queue.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "base/check.h"

namespace reprise::actors {

bool EvictionQueue::LessRecent::operator()(const CacheEntry* a, const CacheEntry* b) const {
  return std::tie(a->last_use, a->use_order) < std::tie(b->last_use, b->use_order);
}

bool EvictionQueue::EndsBefore::operator()(const CacheEntry* a, const CacheEntry* b) const {
  const auto end_of = [](const CacheEntry* entry) { return entry->last_use + entry->ttl; };
  return std::make_tuple(end_of(a), a->use_order) < std::make_tuple(end_of(b), b->use_order);
}

void EvictionQueue::add(CacheEntry& entry) {
  REPRISE_CHECK(!entry.queued, "an entry was added to the eviction queue twice");
  const bool first = queues_[entry.pinned][entry.kind].insert(&entry).second;
  REPRISE_CHECK(first, "two cache entries have the same rank in the eviction order");
  if (entry.ttl > Time::zero()) short_lived_[entry.pinned].insert(&entry);
  entry.queued = true;
}

void EvictionQueue::remove(CacheEntry& entry) {
  if (!entry.queued) return;
  ByKind& queues = queues_[entry.pinned];
  const auto queue = queues.find(entry.kind);
  REPRISE_CHECK(queue != queues.end() && queue->second.erase(&entry) == 1,
                "an entry marked as queued is in no eviction queue");
  if (queue->second.empty()) queues.erase(queue);
  if (entry.ttl > Time::zero()) short_lived_[entry.pinned].erase(&entry);
  entry.queued = false;
}

CacheEntry* EvictionQueue::oldest(const ByKind& queues) {
  CacheEntry* oldest = nullptr;
  for (const auto& [kind, queue] : queues) {
    if (oldest == nullptr || LessRecent{}(*queue.begin(), oldest)) oldest = *queue.begin();
  }
  return oldest;
}

CacheEntry* EvictionQueue::least_valuable(const ByKind& queues, Time now) const {
  const auto age = [&](const CacheEntry* entry) {
    return felt_age(now - entry->last_use, policy_.patience(entry->kind));
  };
  CacheEntry* least = nullptr;
  const ByAge* of_its_kind = nullptr;
  for (const auto& [kind, queue] : queues) {
    CacheEntry* entry = *queue.begin();
    const bool goes_before = least == nullptr || age(entry) > age(least) ||
                             (age(entry) == age(least) && LessRecent{}(entry, least));
    if (!goes_before) continue;
    least = entry;
    of_its_kind = &queue;
  }
  if (least == nullptr || of_its_kind->size() < 3) return least;
  // The newest may be one that is only just being kept.
  const bool spared = policy_.spares_oldest(least->kind, of_its_kind->size(), now - least->last_use);
  return spared ? *std::next(of_its_kind->rbegin()) : least;
}

CacheEntry* EvictionQueue::expired(Time now, bool allow_pinned) const {
  CacheEntry* first = nullptr;
  for (const bool pinned : {false, true}) {
    if (pinned && !allow_pinned) break;
    CacheEntry* entry = ttl_ == Time::zero() ? nullptr : oldest(queues_[pinned]);
    if (entry != nullptr && now - entry->last_use <= ttl_) entry = nullptr;
    if (entry == nullptr && !short_lived_[pinned].empty()) {
      entry = *short_lived_[pinned].begin();
      if (now - entry->last_use <= entry->ttl) entry = nullptr;
    }
    if (entry != nullptr && (first == nullptr || LessRecent{}(entry, first))) first = entry;
  }
  return first;
}

CacheEntry* EvictionQueue::first(Time now, bool allow_pinned) const {
  if (CacheEntry* entry = expired(now, allow_pinned)) return entry;
  CacheEntry* entry = least_valuable(queues_[false], now);
  return entry == nullptr && allow_pinned ? least_valuable(queues_[true], now) : entry;
}

}  // namespace reprise::actors
