#pragma once
// Event: something has changed, for coroutines of one actor that wait for it.
//
//   while (!ready()) {                                   changed.signal();
//     auto waiting = changed.wait();
//     const Result<void> woken = co_await waiting;
//     if (!woken.ok()) co_return;
//   }
//
// A signal wakes all who wait at that moment, in turns of their own, and is not remembered: whoever waits
// looks at what it waits for first, and again when it is woken. Between the look and the wait nothing else of
// the actor runs, so no signal is lost. Waiters may outlive the event; nothing wakes them then but their
// limits.
//
// Threading: the actor's home only.

#include <optional>
#include <utility>

#include "runtime/wait.h"

namespace reprise::runtime {

/// Awaitable of Event::wait(): in good order after a signal; kDeadline or kCancelled otherwise.
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
  /// To be awaited at once, before anything else of the actor runs.
  EventWait wait(TimePoint deadline = TimePoint::max(), CancelToken cancel = {}) {
    if (!next_) next_.emplace();
    return EventWait(next_->token(), deadline, std::move(cancel));
  }
  /// Costs nothing where nobody waits.
  void signal() {
    if (std::optional<CancelSource> awaited = std::exchange(next_, std::nullopt)) awaited->cancel();
  }

 private:
  std::optional<CancelSource>
      next_;  // cancelled by the next signal; none while nobody has waited since the last
};

}  // namespace reprise::runtime
