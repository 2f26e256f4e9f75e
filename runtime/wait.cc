#include "runtime/wait.h"

#include <memory>

#include "runtime/detail/cell.h"
#include "runtime/detail/pool.h"
#include "runtime/executor.h"

namespace reprise::runtime {

struct Suspension::WakeUp : Node, Pooled {
  explicit WakeUp(Suspension* waiting) : Node(&kOps), suspension(waiting) {}

  static void run_node(Node* node, Cell&) {
    const std::unique_ptr<WakeUp> wake_up(static_cast<WakeUp*>(node));
    if (wake_up->suspension == nullptr) return;
    wake_up->suspension->wake_up_ = nullptr;
    wake_up->suspension->resume();
  }
  static void bounce_node(Node* node, ErrorCode) {
    const std::unique_ptr<WakeUp> wake_up(static_cast<WakeUp*>(node));
    if (wake_up->suspension != nullptr) wake_up->suspension->wake_up_ = nullptr;
  }

  static constexpr NodeOps kOps{NodeKind::kContinuation, "wake-up", nullptr, run_node, bounce_node};

  Suspension* suspension;  // null once the Suspension is destroyed
};

Suspension::~Suspension() {
  if (wake_up_ != nullptr) wake_up_->suspension = nullptr;
}

void Suspension::resume() {
  Activation& activation = *std::exchange(activation_, nullptr);
  activation.cell().resume(activation, handle_);
}

void Suspension::wake() {
  if (wake_up_ != nullptr) return;
  wake_up_ = new WakeUp(this);
  wake_up_->target = &cell();
  cell().accept(wake_up_);
}

std::optional<ErrorCode> Wait::set_limits(TimePoint deadline, const CancelToken& cancel) {
  if (cancel.canceled()) return ErrorCode::kCanceled;
  if (deadline != TimePoint::max()) {
    if (deadline <= Clock::now()) return ErrorCode::kDeadline;
    Executor::current()->arm(timer_, deadline);
  }
  if (cancel.can_be_canceled()) cancellation_.add_to(cancel);
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
