#pragma once
// A thread that does one piece of work at a time for a caller that does not wait.
//
// Threading: start() from one thread, and not before the work that was started has ended, which its `done`
// tells. The destructor waits for what runs.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace reprise::actors {

class StepThread {
 public:
  /// `begin` is called first, on the thread.
  StepThread(const char* name, std::function<void()> begin);
  ~StepThread();
  StepThread(const StepThread&) = delete;
  StepThread& operator=(const StepThread&) = delete;

  /// `work`, then `done`, neither of which may throw.
  void start(std::function<void()> work, std::function<void()> done);

 private:
  void serve(const std::function<void()>& begin);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // guarded by mutex_
  std::function<void()> done_;  // guarded by mutex_
  bool ending_ = false;         // guarded by mutex_
  std::thread thread_;          // last: it uses all of the above
};

}  // namespace reprise::actors
