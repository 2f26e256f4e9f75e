#include "actors/worker/step_thread.h"

#include "base/check.h"
#include "traces/trace.h"

namespace reprise::actors {

StepThread::StepThread(std::function<void()> begin)
    : thread_([this, begin = std::move(begin)] { serve(begin); }) {}

StepThread::~StepThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void StepThread::start(std::function<void()> work, std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    REPRISE_CHECK(!work_, "two steps at once");
    work_ = std::move(work);
    done_ = std::move(done);
  }
  changed_.notify_one();
}

void StepThread::serve(const std::function<void()>& begin) {
  traces::name_thread("device step");
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
    lock.unlock();
    done();
    lock.lock();
  }
}

}  // namespace reprise::actors
