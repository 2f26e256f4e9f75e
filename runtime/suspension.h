#pragma once
// Base of the awaitables that wait for something outside the coroutine: a reply, a stream, a timer, an Asio
// operation.
//
// A Suspension remembers which coroutine of which actor waits. What it waits for ends the wait on the actor's
// home, in one of two ways: resume() from within a node's run, which makes the rest of the coroutine part of
// that turn; or wake(), from anywhere on the home, which queues a turn of its own. Because both happen on the
// home, and the coroutine itself runs there, nothing can resume it while it is still suspending.
//
// Destroying a waiting Suspension (its coroutine is being destroyed) withdraws a queued wake-up; the derived
// class withdraws from what it waited for. Threading: the actor's home only.

#include <coroutine>

#include "runtime/node.h"
#include "runtime/task.h"

namespace reprise::runtime {

class Suspension : public ActorAwaitable {
 public:
  Suspension() = default;
  ~Suspension();
  Suspension(const Suspension&) = delete;
  Suspension& operator=(const Suspension&) = delete;

 protected:
  bool waiting() const { return activation_ != nullptr; }

  /// From await_suspend.
  template <class Promise>
  void wait_here(std::coroutine_handle<Promise> handle) {
    activation_ = &handle.promise().activation();
    handle_ = handle;
  }

  /// Requires waiting(); from within a node's run on the waiting actor. `this` may be gone afterwards.
  void resume();

  /// Requires waiting(). More than one call before the coroutine runs is one wake-up.
  void wake();

  Cell& cell() const { return activation_->cell(); }

 private:
  struct WakeUp;

  Activation* activation_ = nullptr;
  std::coroutine_handle<> handle_;
  WakeUp* wake_up_ = nullptr;
};

}  // namespace reprise::runtime
