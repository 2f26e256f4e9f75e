#include "runtime/suspension.h"

#include <memory>

#include "runtime/cell.h"
#include "runtime/pool.h"

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

  Suspension* suspension;  // null once it was destroyed
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

}  // namespace reprise::runtime
