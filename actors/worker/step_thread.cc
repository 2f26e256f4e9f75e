#include "actors/worker/step_thread.h"

#include "base/check.h"
#include "traces/trace.h"

namespace reprise::actors {

StepThread::StepThread(const char* name, std::function<void()> begin, std::chrono::microseconds looks)
    : looks_(looks), thread_([this, name, begin = std::move(begin)] {
        traces::name_thread(name);
        serve(begin);
      }) {}

StepThread::~StepThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  has_news_.store(true, std::memory_order_relaxed);
  changed_.notify_one();
  thread_.join();
}

void StepThread::start(std::function<void()> work, std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    REPRISE_CHECK(!work_, "a step was started while another is running");
    work_ = std::move(work);
    done_ = std::move(done);
  }
  has_news_.store(true, std::memory_order_relaxed);  // relaxed: the mutex brings what it is
  changed_.notify_one();
}

void StepThread::look_for_work() const {
  const auto end = std::chrono::steady_clock::now() + looks_;
  while (!has_news_.load(std::memory_order_relaxed) && std::chrono::steady_clock::now() < end) {
  }
}

void StepThread::serve(const std::function<void()>& begin) {
  begin();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || work_; });
    if (!work_) return;
    const std::function<void()> work = work_;
    const std::function<void()> done = std::move(done_);
    lock.unlock();
    work();
    lock.lock();
    work_ = nullptr;
    has_news_.store(false, std::memory_order_relaxed);  // before anybody learns that there may be more
    lock.unlock();
    done();
    if (looks_.count() > 0) look_for_work();
    lock.lock();
  }
}

}  // namespace reprise::actors
