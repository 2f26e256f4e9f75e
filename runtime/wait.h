#pragma once
// Waits of a coroutine for something outside it: Suspension is their base, Wait has a deadline and a CancelToken, either of
// which ends it, and sleep_for() is the simplest of them.
//
// Threading: the actor's home only. The coroutine resumes there.

#include <coroutine>

#include "runtime/cancel.h"
#include "runtime/node.h"
#include "runtime/task.h"
#include "runtime/ticks.h"
#include "runtime/timer_wheel.h"

namespace reprise::runtime {

/// The base of awaitables that wait for something outside the coroutine: a reply, a stream, a timer, an Asio
/// operation.
///
/// A Suspension remembers which coroutine of which actor waits. What it waits for ends the wait on the actor's
/// home, in one of two ways: resume() from within a node's run, which makes the rest of the coroutine part of
/// that turn; or wake(), from anywhere on the home, which queues a turn of its own. Because both happen on the
/// home, and the coroutine itself runs there, nothing can resume it while it is still suspending.
///
/// Destroying a waiting Suspension (its coroutine is being destroyed) withdraws a queued wake-up; the derived
/// class withdraws from what it waited for.
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

/// A Suspension with limits. The coroutine resumes in a turn of its own.
class Wait : public Suspension {
 protected:
  Wait() : timer_(this), cancellation_(this) {}
  virtual ~Wait() = default;

  /// Arms what there is to arm. If a limit has been passed already, answers why, and arms nothing.
  std::optional<ErrorCode> set_limits(TimePoint deadline, const CancelToken& cancel);
  void clear_limits();

  /// A limit was reached, kDeadline or kCancelled; limits are cleared. Must withdraw from what is waited for,
  /// and wake() if waiting(). Not called from within the coroutine.
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
      static_cast<Cancellation&>(registration).wait->limit_reached(ErrorCode::kCancelled);
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

/// `auto pause = sleep_for(10ms); Result<void> rested = co_await pause;`: kCancelled, or in good order after
/// the time.
class [[nodiscard]] Sleep : public Wait {
 public:
  Sleep(TimePoint until, CancelToken cancel) : until_(until), cancel_(std::move(cancel)) {}

  bool await_ready();
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    wait_here(handle);
  }
  Result<void> await_resume() {
    return outcome_ == ErrorCode::kCancelled ? Result<void>(outcome_) : Result<void>();
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
