#pragma once
// A home with a thread: a worker of the pool, or the own thread of one actor (and of the children that it
// keeps near).
//
// The thread works off rounds; when there is nothing to do it polls for a moment (an answer from another
// worker usually comes within microseconds), then sleeps until it is woken or a timer is due. A worker ends
// when the system stops; an own thread when its last actor has stopped.
//
// Threading: start(), join(): the system. Everything else is private to the thread.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/home.h"

namespace reprise::runtime {

class ThreadHome : public Home {
 public:
  enum class Kind { kWorker, kOwn };

  ThreadHome(std::shared_ptr<SystemCore> core, Kind kind) : Home(std::move(core)), kind_(kind) {}

  /// A worker's; an own thread starts with its first actor.
  void start(const std::string& thread_name);

  void actor_ready(Cell& cell) override;
  void finish() override;
  bool wait_ended(TimePoint deadline) override;
  void join_or_leave() override;

 private:
  ~ThreadHome() override;
  void wake() override;
  void loop();
  bool may_end();
  void sleep();

  const Kind kind_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;  // guarded by mutex_
  bool finish_ = false;    // guarded by mutex_
  bool ended_ = false;     // guarded by mutex_
};

}  // namespace reprise::runtime
