#pragma once
// A condition variable for the coroutines of one actor.
//
//   while (!ready()) {                                   changed.signal();
//     auto waiting = changed.wait();
//     const Result<void> woken = co_await waiting;
//     if (!woken.ok()) co_return;
//   }
//
// A signal wakes the coroutines waiting at that moment, each in its own turn, and is not remembered. So a
// waiter checks its condition before waiting and again when woken. No other code of the actor runs between
// check and wait, so no signal is lost. A wait may outlive the event; only its limits end it then.
//
// Threading: the actor's executor only.

#include <optional>
#include <utility>

#include "runtime/wait.h"

namespace reprise::runtime {

/// Awaitable of Event::wait(): ok after a signal, otherwise kDeadline or kCanceled.
class [[nodiscard]] EventWait : public Wait {
 public:
  EventWait(CancelToken signal, TimePoint deadline, CancelToken cancel)
      : happening_(this), signal_(std::move(signal)), deadline_(deadline), cancel_(std::move(cancel)) {}

  bool await_ready() {
    if (const std::optional<ErrorCode> passed = set_limits(deadline_, cancel_)) {
      outcome_ = *passed;
      return true;
    }
    happening_.add_to(signal_);
    return false;
  }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    wait_here(handle);
  }
  Result<void> await_resume() { return std::move(outcome_); }

 private:
  struct Happening : CancelRegistration {
    explicit Happening(EventWait* waiting) : CancelRegistration(notify), wait(waiting) {}
    static void notify(CancelRegistration& registration) {
      EventWait& wait = *static_cast<Happening&>(registration).wait;
      wait.clear_limits();
      wait.wake();
    }
    EventWait* wait;
  };

  void give_up(ErrorCode why) override {
    happening_.remove();
    outcome_ = why;
    wake();
  }

  Happening happening_;
  CancelToken signal_;
  TimePoint deadline_;
  CancelToken cancel_;
  Result<void> outcome_;
};

class Event {
 public:
  /// Await the result before other code of the actor runs.
  EventWait wait(TimePoint deadline = TimePoint::max(), CancelToken cancel = {}) {
    if (!next_) next_.emplace();
    return EventWait(next_->token(), deadline, std::move(cancel));
  }
  void signal() {
    if (std::optional<CancelSource> awaited = std::exchange(next_, std::nullopt)) awaited->cancel();
  }

 private:
  std::optional<CancelSource>
      next_;  // canceled by the next signal(); empty if there was no wait() since the last
};

}  // namespace reprise::runtime
