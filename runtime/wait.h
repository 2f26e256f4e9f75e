#pragma once
// Waits of a coroutine for something outside it: Suspension, their base; Wait, with a deadline and a
// CancelToken, either of which ends it; and sleep_for(), the simplest Wait.
//
// Threading: the actor's executor only. The coroutine resumes there.

#include <coroutine>

#include "runtime/cancel.h"
#include "runtime/detail/node.h"
#include "runtime/detail/ticks.h"
#include "runtime/detail/timer_wheel.h"
#include "runtime/task.h"

namespace reprise::runtime {

/// Base of awaitables for an outside event: a reply, a stream, a timer, an Asio operation.
///
/// Knows which coroutine of which actor waits. The event ends the wait on the actor's executor: resume(), from
/// within the run of a node, makes the rest of the coroutine part of that turn; wake() queues a turn of its
/// own. As the coroutine runs on the same executor, it cannot be resumed while it is still suspending.
///
/// Destruction while waiting withdraws a queued wake-up; the derived class must withdraw from the event.
class Suspension : public ActorAwaitable {
 public:
  Suspension() = default;
  ~Suspension();
  Suspension(const Suspension&) = delete;
  Suspension& operator=(const Suspension&) = delete;

 protected:
  bool waiting() const { return activation_ != nullptr; }

  /// Called from await_suspend.
  template <class Promise>
  void wait_here(std::coroutine_handle<Promise> handle) {
    activation_ = &handle.promise().activation();
    handle_ = handle;
  }

  /// Requires waiting(), within the run of a node on the waiting actor. May destroy `this`.
  void resume();

  /// Requires waiting(). Repeated calls before the coroutine runs are one wake-up.
  void wake();

  Cell& cell() const { return activation_->cell(); }

 private:
  struct WakeUp;

  Activation* activation_ = nullptr;
  std::coroutine_handle<> handle_;
  WakeUp* wake_up_ = nullptr;
};

/// A Suspension with a deadline and a CancelToken. The coroutine resumes in a turn of its own.
class Wait : public Suspension {
 protected:
  Wait() : timer_(this), cancellation_(this) {}
  virtual ~Wait() = default;

  /// If a limit has already passed, returns its code and arms nothing.
  std::optional<ErrorCode> set_limits(TimePoint deadline, const CancelToken& cancel);
  void clear_limits();

  /// A limit was reached (kDeadline, kCanceled), outside the coroutine; limits are cleared. Must withdraw
  /// from the event, and wake() if waiting().
  virtual void give_up(ErrorCode why) = 0;

 private:
  struct Timer : TimerEntry {
    explicit Timer(Wait* waiting) : TimerEntry(fire), wait(waiting) {}
    static void fire(TimerEntry& entry) {
      static_cast<Timer&>(entry).wait->limit_reached(ErrorCode::kDeadline);
    }
    Wait* wait;
  };
  struct Cancellation : CancelRegistration {
    explicit Cancellation(Wait* waiting) : CancelRegistration(notify), wait(waiting) {}
    static void notify(CancelRegistration& registration) {
      static_cast<Cancellation&>(registration).wait->limit_reached(ErrorCode::kCanceled);
    }
    Wait* wait;
  };

  void limit_reached(ErrorCode why) {
    clear_limits();
    give_up(why);
  }

  Timer timer_;
  Cancellation cancellation_;
};

/// Result: ok after the time, or kCanceled.
///   auto pause = sleep_for(10ms);
///   Result<void> rested = co_await pause;
class [[nodiscard]] Sleep : public Wait {
 public:
  Sleep(TimePoint until, CancelToken cancel) : until_(until), cancel_(std::move(cancel)) {}

  bool await_ready();
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    wait_here(handle);
  }
  Result<void> await_resume() {
    return outcome_ == ErrorCode::kCanceled ? Result<void>(outcome_) : Result<void>();
  }

 private:
  void give_up(ErrorCode why) override;

  TimePoint until_;
  CancelToken cancel_;
  ErrorCode outcome_ = ErrorCode::kDeadline;
};

inline Sleep sleep_until(TimePoint time, CancelToken cancel = {}) {
  return Sleep(time, std::move(cancel));
}
inline Sleep sleep_for(Duration duration, CancelToken cancel = {}) {
  return Sleep(deadline_after(duration), std::move(cancel));
}

}  // namespace reprise::runtime
