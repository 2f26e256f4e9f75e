#include "actors/cache/eviction_policy.h"

#include <algorithm>
#include <cmath>

#include "actors/cache/return_times.h"

namespace reprise::actors {
namespace {

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
  static constexpr double kPatience = 3, kLeast = 2, kMost = 64;
  static constexpr double kEarly = 0.3;  // of the returns
  static constexpr double kQuantileStep = 0.05;
  static constexpr double kWeight = 0.02;  // of what was seen last

  void decide() {
    const double shortage = std::exp(log_early_return_) / std::max(1.0, stay_seconds_);
    with_shared_ = std::clamp(kPatience * std::pow(shortage, shortage > 1 ? 2 : 0.2), kLeast, kMost);
  }

  // Of entries that are not shared. Before anything was seen: a pause of a minute, and no shortage.
  double log_early_return_ = std::log(60.0);
  double stay_seconds_ = 60;
  double with_shared_ = kPatience;
  ReturnTimes never_hit_;
};

}  // namespace

EntryKind kind_of(const CacheEntry& entry) {
  // A prompt that is being computed is one of the ways, so two are no more than "it was hit".
  return {.shared = entry.origin == protocol::Origin::kBranch || entry.node->children() > 2,
          .hit = entry.hits > 0};
}

std::unique_ptr<EvictionPolicy> make_eviction_policy() {
  return std::make_unique<Returns>();
}

}  // namespace reprise::actors
