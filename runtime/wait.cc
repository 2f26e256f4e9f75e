#include "runtime/wait.h"

#include "runtime/cell.h"
#include "runtime/home.h"

namespace reprise::runtime {

std::optional<ErrorCode> Wait::set_limits(TimePoint deadline, const CancelToken& cancel) {
  if (cancel.cancelled()) return ErrorCode::kCancelled;
  if (deadline != TimePoint::max()) {
    if (deadline <= Clock::now()) return ErrorCode::kDeadline;
    Home::current()->arm(timer_, deadline);
  }
  if (cancel.can_be_cancelled()) cancellation_.add_to(cancel);
  return std::nullopt;
}

void Wait::clear_limits() {
  timer_.cancel();
  cancellation_.remove();
}

bool Sleep::await_ready() {
  const std::optional<ErrorCode> passed = set_limits(until_, cancel_);
  if (passed) outcome_ = *passed;
  return passed.has_value();
}

void Sleep::give_up(ErrorCode why) {
  outcome_ = why;
  wake();
}

}  // namespace reprise::runtime
