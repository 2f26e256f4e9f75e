#include "runtime/detail/thread_executor.h"

#include "base/check.h"
#include "runtime/detail/system_core.h"

#if defined(__linux__)
#include <pthread.h>
#endif

namespace reprise::runtime {

namespace {

constexpr int kPolls = 400;  // about 10 µs

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // equivalent of x86's pause; `yield` is a no-op on most Arm cores
#endif
}

void name_this_thread([[maybe_unused]] const std::string& name) {
#if defined(__linux__)
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
#endif
}

}  // namespace

ThreadExecutor::~ThreadExecutor() {
  REPRISE_CHECK(!thread_.joinable(), "an executor was destroyed while its thread runs");
}

void ThreadExecutor::start(const std::string& thread_name) {
  std::lock_guard lock(mutex_);
  thread_ = std::thread([self = ExecutorPtr(this), this, thread_name] {
    name_this_thread(thread_name);
    traces::name_thread(thread_name.c_str());
    loop();
  });
}

void ThreadExecutor::actor_ready(Cell& cell) {
  if (kind_ != Kind::kOwn || Executor::current() == this) return;
  core().add_executor(ExecutorPtr(this));
  start(cell.name());
}

void ThreadExecutor::finish() {
  {
    std::lock_guard lock(mutex_);
    finish_ = true;
  }
  wake();
}

bool ThreadExecutor::wait_ended(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return ended_; });
}

void ThreadExecutor::join_or_leave() {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) return;
  std::thread thread = std::move(thread_);
  const bool ended = ended_;
  lock.unlock();
  if (ended) {
    thread.join();
  } else {
    thread.detach();
  }
}

void ThreadExecutor::wake() {
  std::lock_guard lock(mutex_);
  notified_ = true;
  changed_.notify_all();
}

bool ThreadExecutor::may_end() {
  if (kind_ == Kind::kWorker) {
    std::lock_guard lock(mutex_);
    if (!finish_) return false;
  }
  return population() == 0 && try_seal();
}

void ThreadExecutor::sleep() {
  for (int i = 0; i < kPolls; ++i) {
    if (!inbox_empty()) return;
    relax();
  }
  const Sleep announced = announce_sleep();
  if (announced == Sleep::kStayAwake) return;
  std::unique_lock lock(mutex_);
  const auto woken = [this] { return notified_; };
  const TimePoint until = next_timer();
  if (until == TimePoint::max()) {
    changed_.wait(lock, woken);
  } else {
    changed_.wait_until(lock, until, woken);
  }
  notified_ = false;
  lock.unlock();
  cancel_sleep();  // fails, harmlessly, if a sender has woken this executor
}

void ThreadExecutor::loop() {
  {
    const Presence presence(*this);
    while (true) {
      if (run_round()) continue;
      if (may_end()) break;
      sleep();
    }
    close();
  }
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  core().executor_ended();
}

}  // namespace reprise::runtime
