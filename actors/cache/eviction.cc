#include "actors/cache/eviction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <tuple>

#include "base/check.h"

namespace reprise::actors {
namespace {

/// Estimates how long entries of one kind take to be reused, and whether, if memory is short, all should stay
/// equally long or some long enough to be used.
///
/// An entry kept for a time t is used with probability F(t) and occupies memory for t, so a slot in memory
/// yields F(t) / t. This usually falls with t, which favors LRU. But people read and type before they return:
/// in conversations, returns within half a minute are rare. If all entries would be evicted before that, F(t)
/// / t is larger for some longer time, so it is better to keep old entries up to that time and evict young
/// ones. By Little's law, all could stay for their number times the interval between new ones.
///
/// Bounds: kBins numbers.
class ReturnTimes {
 public:
  void queued(std::chrono::nanoseconds at) {
    const double now = std::chrono::duration<double>(at).count();
    if (any_queued_) seconds_between_ += kWeight * (std::max(0.0, now - last_queued_) - seconds_between_);
    any_queued_ = true;
    last_queued_ = now;
  }
  void returned(double seconds) {
    for (double& count : returns_) count *= kLeft;
    ++returns_[bin_of(seconds)];
  }
  /// Returns true if, among `count` entries, one idle for `oldest_seconds` should stay and a younger one be
  /// evicted.
  bool worth_holding(std::size_t count, double oldest_seconds) const {
    const double stay = std::max(kMinLength, static_cast<double>(count) * seconds_between_);
    const double earned = returns_within(stay) / stay;
    double best = 0, until = 0, returns = 0;
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      returns += returns_[bin];
      const double end = begin_of(bin + 1);
      if (end <= stay || returns / end <= best) continue;
      best = returns / end;
      until = end;
    }
    return best > earned && oldest_seconds < until;
  }

 private:
  static constexpr std::size_t kBins = 24;   // bin ends at 1, 2, 4, ... seconds, beyond a month
  static constexpr double kLeft = 0.998;     // decay of the counts per return
  static constexpr double kWeight = 0.05;    // moving average: weight of the last interval
  static constexpr double kMinLength = 0.5;  // s

  static double begin_of(std::size_t bin) {
    return bin == 0 ? 0 : std::ldexp(1.0, static_cast<int>(bin) - 1);
  }
  static std::size_t bin_of(double seconds) {
    if (seconds < 1) return 0;
    return std::min(kBins - 1, static_cast<std::size_t>(std::ilogb(seconds)) + 1);
  }
  double returns_within(double seconds) const {
    const std::size_t last = bin_of(seconds);
    double returns = 0;
    for (std::size_t bin = 0; bin < last; ++bin) returns += returns_[bin];
    const double share = (seconds - begin_of(last)) / (begin_of(last + 1) - begin_of(last));
    return returns + returns_[last] * std::min(1.0, share);
  }

  std::array<double, kBins> returns_{};
  double seconds_between_ = 10;
  double last_queued_ = 0;
  bool any_queued_ = false;
};

class Returns : public EvictionPolicy {
 public:
  double patience(EntryKind kind) const override {
    return (kind.shared ? with_shared_ : 1) * (kind.hit ? 2 : 1);
  }
  void queued(EntryKind kind, Time at) override {
    if (kind == kNeverHit) never_hit_.queued(at);
  }
  void returned(EntryKind kind, Time unused) override {
    const double seconds = std::max(0.0, std::chrono::duration<double>(unused).count());
    if (kind == kNeverHit) never_hit_.returned(seconds);
    if (kind.shared) return;
    log_early_return_ += kQuantileStep * (kEarly - (std::log(std::max(seconds, 1e-3)) < log_early_return_));
    decide();
  }
  void evicted(EntryKind kind, Time unused) override {
    if (kind.shared) return;
    stay_seconds_ += kWeight * (std::chrono::duration<double>(unused).count() - stay_seconds_);
    decide();
  }
  bool spares_oldest(EntryKind kind, std::size_t count, Time unused) const override {
    return kind == kNeverHit &&
           never_hit_.worth_holding(count, std::chrono::duration<double>(unused).count());
  }

 private:
  static constexpr EntryKind kNeverHit{.shared = true, .hit = false};
  static constexpr double kPatience = 3, kMin = 2, kMax = 64;
  static constexpr double kEarly = 0.3;  // quantile of return times
  static constexpr double kQuantileStep = 0.05;
  static constexpr double kWeight = 0.02;  // moving average: weight of the last observation

  void decide() {
    const double shortage = std::exp(log_early_return_) / std::max(1.0, stay_seconds_);
    with_shared_ = std::clamp(kPatience * std::pow(shortage, shortage > 1 ? 2 : 0.2), kMin, kMax);
  }

  // For unshared entries. Initially: returns after a minute, and no shortage.
  double log_early_return_ = std::log(60.0);
  double stay_seconds_ = 60;
  double with_shared_ = kPatience;
  ReturnTimes never_hit_;
};

}  // namespace

EntryKind kind_of(const CacheEntry& entry) {
  // The prompt being computed may be one of the children, so two mean no more than a hit.
  return {.shared = entry.origin == protocol::Origin::kBranch || entry.node->children() > 2,
          .hit = entry.hits > 0};
}

std::unique_ptr<EvictionPolicy> make_eviction_policy() {
  return std::make_unique<Returns>();
}

// -- the queue

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
  // The newest may be an entry that is just being inserted.
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

// -- conversations

const std::vector<CacheEntry*>& ConversationEntries::made_by(const CacheEntry& entry) const {
  static const std::vector<CacheEntry*> kNone;
  const auto found = made_.find(key_of(entry));
  return found == made_.end() ? kNone : found->second;
}

void ConversationEntries::add(CacheEntry& entry) {
  if (entry.conversation != 0) made_[key_of(entry)].push_back(&entry);
}

void ConversationEntries::remove(const CacheEntry& entry) {
  const auto found = made_.find(key_of(entry));
  if (found == made_.end()) return;
  std::erase(found->second, &entry);
  if (found->second.empty()) made_.erase(found);
}

std::size_t ConversationEntries::count(const CacheEntry& entry) const {
  return made_by(entry).size();
}

std::size_t ConversationEntries::count(const CacheEntry& entry, protocol::Origin origin) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(made_by(entry), [&](const CacheEntry* one) { return one->origin == origin; }));
}

CacheEntry* ConversationEntries::closest_to_others(const CacheEntry& newest, protocol::Origin origin) const {
  std::vector<CacheEntry*> sorted;
  std::ranges::copy_if(made_by(newest), std::back_inserter(sorted),
                       [&](const CacheEntry* one) { return one->origin == origin; });
  std::sort(sorted.begin(), sorted.end(), [](const CacheEntry* a, const CacheEntry* b) {
    return std::pair(a->length, a->use_order) < std::pair(b->length, b->use_order);
  });
  CacheEntry* closest = nullptr;
  std::uint32_t min_gap = UINT32_MAX;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    CacheEntry* entry = sorted[i];
    if (entry == &newest || !entry->queued || entry->pinned) continue;
    const std::uint32_t before = i == 0 ? 0 : sorted[i - 1]->length;
    const std::uint32_t gap = i + 1 == sorted.size() ? UINT32_MAX : sorted[i + 1]->length - before;
    if (closest != nullptr && gap >= min_gap) continue;
    closest = entry;
    min_gap = gap;
  }
  return closest;
}

CacheEntry* ConversationEntries::least_valuable(const CacheEntry& newest, std::chrono::nanoseconds now,
                                                const EvictionPolicy& policy) const {
  CacheEntry* least = nullptr;
  const auto age = [&](const CacheEntry& entry) {
    return felt_age(now - entry.last_use, policy.patience(entry.kind));
  };
  for (CacheEntry* entry : made_by(newest)) {
    if (entry == &newest || !entry->queued || entry->pinned) continue;
    const bool before = least == nullptr || age(*entry) > age(*least) ||
                        (age(*entry) == age(*least) && entry->use_order < least->use_order);
    if (before) least = entry;
  }
  return least;
}

}  // namespace reprise::actors
