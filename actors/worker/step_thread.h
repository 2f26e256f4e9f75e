#pragma once
// A thread that does one piece of work at a time for a caller that does not wait.
//
// Where the next piece comes soon after the last, to be woken for it may take longer than to wait for it awake: the thread
// may look for work for a while before it sleeps.
//
// Threading: start() from one thread, and not before the work that was started has ended, which its `done`
// tells. The destructor waits for what runs.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace reprise::actors {

class StepThread {
 public:
  /// `begin` is called first, on the thread. `looks`: how long it is awake without work.
  StepThread(const char* name, std::function<void()> begin, std::chrono::microseconds looks = {});
  ~StepThread();
  StepThread(const StepThread&) = delete;
  StepThread& operator=(const StepThread&) = delete;

  /// `work`, then `done`, neither of which may throw.
  void start(std::function<void()> work, std::function<void()> done);

 private:
  void serve(const std::function<void()>& begin);
  void look_for_work() const;

  const std::chrono::microseconds looks_;
  std::atomic<bool> has_news_{false};  // work, or the end; what it is, the mutex guards
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // guarded by mutex_
  std::function<void()> done_;  // guarded by mutex_
  bool ending_ = false;         // guarded by mutex_
  std::thread thread_;          // last: it uses all of the above
};

}  // namespace reprise::actors
