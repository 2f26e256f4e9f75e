#pragma once
// A Suspension with limits: a deadline and a CancelToken, either of which ends the wait. And the simplest
// such wait, sleep_for().
//
// Threading: the actor's home only. The coroutine resumes there, in a turn of its own.

#include "runtime/cancel.h"
#include "runtime/suspension.h"
#include "runtime/ticks.h"
#include "runtime/timer_wheel.h"

namespace reprise::runtime {

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
