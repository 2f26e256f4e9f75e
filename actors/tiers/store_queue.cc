#include "actors/tiers/store_queue.h"

#include <chrono>
#include <utility>

namespace reprise::actors {

using protocol::StoreState;

namespace {

constexpr std::chrono::milliseconds kIdlePause{200};

}  // namespace

bool StoreQueue::push(StoreState job) {
  auto& queue = job.device_is_idle ? idle_waiting_ : waiting_;
  queue.push_back(std::move(job));
  came_.signal();
  if (queue.size() <= kMostWaiting) return true;
  queue.pop_front();
  return false;
}

runtime::Task<std::optional<StoreState>> StoreQueue::next() {
  for (;;) {
    if (!waiting_.empty() || (!idle_waiting_.empty() && idle_waiting_.front().device_is_idle())) {
      auto& queue = waiting_.empty() ? idle_waiting_ : waiting_;
      StoreState job = std::move(queue.front());
      queue.pop_front();
      co_return job;
    }
    const runtime::TimePoint deadline =
        idle_waiting_.empty() ? runtime::TimePoint::max() : runtime::deadline_after(kIdlePause);
    auto waiting = came_.wait(deadline);
    const runtime::Result<void> woken = co_await waiting;
    if (!woken.ok() && woken.error().code != runtime::ErrorCode::kDeadline) co_return std::nullopt;
  }
}

void StoreQueue::clear() {
  waiting_.clear();
  idle_waiting_.clear();
}

}  // namespace reprise::actors
