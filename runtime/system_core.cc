#include "runtime/system_core.h"

#include <algorithm>

namespace reprise::runtime {

void SystemCore::add_home(HomePtr home) {
  std::vector<HomePtr> ended;
  {
    std::lock_guard lock(mutex_);
    const auto has_ended = [](const HomePtr& other) { return other->wait_ended(TimePoint::min()); };
    const auto first_ended = std::stable_partition(homes_.begin(), homes_.end(),
                                                   [&](const HomePtr& other) { return !has_ended(other); });
    std::move(first_ended, homes_.end(), std::back_inserter(ended));
    homes_.erase(first_ended, homes_.end());
    homes_.push_back(std::move(home));
  }
  for (const HomePtr& other : ended) other->join_or_leave();
}

std::vector<HomePtr> SystemCore::homes() const {
  std::lock_guard lock(mutex_);
  return homes_;
}

void SystemCore::forget_homes() {
  {
    std::lock_guard lock(mutex_);
    forgetting_ = true;
  }
  home_ended();
}

void SystemCore::home_ended() {
  std::vector<HomePtr> homes;
  std::vector<HomePtr> pool;
  {
    std::lock_guard lock(mutex_);
    if (!forgetting_) return;
    for (const HomePtr& home : homes_) {
      if (!home->wait_ended(TimePoint::min())) return;  // its actors may still call choose_worker()
    }
    homes.swap(homes_);
    pool.swap(pool_);
  }
}

Home& SystemCore::choose_worker() {
  // Round robin, unless the next worker has fewer ready actors.
  const std::uint32_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
  const HomePtr& first = pool_[turn % pool_.size()];
  const HomePtr& second = pool_[(turn + 1) % pool_.size()];
  return second->ready_actors() < first->ready_actors() ? *second : *first;
}

}  // namespace reprise::runtime
