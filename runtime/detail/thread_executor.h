#pragma once
// An executor that runs on a thread: a worker of the pool, or the own thread of one actor and of the children that
// it spawns near itself.
//
// The thread runs rounds. With nothing to do it polls for about 10 us (an answer from another worker usually
// comes within microseconds), then sleeps until it is woken or a timer is due. A worker ends when the system
// stops, an own thread when its last actor has stopped.
//
// Threading: start() and the overrides are called by the system; the private functions run on the thread.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/executor.h"

namespace reprise::runtime {

class ThreadExecutor : public Executor {
 public:
  enum class Kind { kWorker, kOwn };

  ThreadExecutor(std::shared_ptr<SystemCore> core, Kind kind) : Executor(std::move(core)), kind_(kind) {}

  /// Starts the thread of a worker; an own thread is started by its first actor.
  void start(const std::string& thread_name);

  void actor_ready(Cell& cell) override;
  void finish() override;
  bool wait_ended(TimePoint deadline) override;
  void join_or_leave() override;

 private:
  ~ThreadExecutor() override;
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
