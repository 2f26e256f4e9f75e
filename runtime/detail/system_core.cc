#include "runtime/detail/system_core.h"

#include <algorithm>

namespace reprise::runtime {

void SystemCore::add_executor(ExecutorPtr executor) {
  std::vector<ExecutorPtr> ended;
  {
    std::lock_guard lock(mutex_);
    const auto has_ended = [](const ExecutorPtr& other) { return other->wait_ended(TimePoint::min()); };
    const auto first_ended = std::stable_partition(
        executors_.begin(), executors_.end(), [&](const ExecutorPtr& other) { return !has_ended(other); });
    std::move(first_ended, executors_.end(), std::back_inserter(ended));
    executors_.erase(first_ended, executors_.end());
    executors_.push_back(std::move(executor));
  }
  for (const ExecutorPtr& other : ended) other->join_or_leave();
}

std::vector<ExecutorPtr> SystemCore::executors() const {
  std::lock_guard lock(mutex_);
  return executors_;
}

void SystemCore::forget_executors() {
  {
    std::lock_guard lock(mutex_);
    forgetting_ = true;
  }
  executor_ended();
}

void SystemCore::executor_ended() {
  std::vector<ExecutorPtr> executors;
  std::vector<ExecutorPtr> pool;
  {
    std::lock_guard lock(mutex_);
    if (!forgetting_) return;
    for (const ExecutorPtr& executor : executors_) {
      if (!executor->wait_ended(TimePoint::min())) return;  // its actors may still call choose_worker()
    }
    executors.swap(executors_);
    pool.swap(pool_);
  }
}

Executor& SystemCore::choose_worker() {
  // Round robin, unless the next worker has fewer ready actors.
  const std::uint32_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
  const ExecutorPtr& first = pool_[turn % pool_.size()];
  const ExecutorPtr& second = pool_[(turn + 1) % pool_.size()];
  return second->ready_actors() < first->ready_actors() ? *second : *first;
}

}  // namespace reprise::runtime
