#include "runtime/cell.h"

#include <optional>

#include "runtime/home.h"
#include "runtime/system_core.h"
#include "traces/trace.h"

namespace reprise::runtime {

namespace {

constexpr int kQuantum = 64;           // turns in a row, before the home's other actors get theirs
constexpr int kTurnsBetweenLooks = 8;  // at the clock, while turns are short
// After a long turn: an actor that takes long turns among short ones is left after each of them, so that what
// has arrived from elsewhere does not wait for several.
constexpr int kWatchfulTurns = 256;

thread_local Cell* current_cell = nullptr;

}  // namespace

/// The cell whose turns run on this thread, and its track while somebody traces.
class CurrentCell {
 public:
  explicit CurrentCell(Cell* cell) : cell_(cell), outer_(std::exchange(current_cell, cell)) {
    if (traces::on()) [[unlikely]]
      enter_track();
  }
  ~CurrentCell() {
    current_cell = outer_;
    if (scope_) [[unlikely]]
      leave_track();
  }

  bool traced() const { return scope_.has_value(); }

 private:
  void enter_track() {
    traces::Track* track = cell_->borrow_track();
    scope_.emplace(track);
    if (track != nullptr) traces::plot(track->mailbox(), cell_->mailbox().depth());
  }
  void leave_track() {
    scope_.reset();  // before the track is another's
    if (cell_->life() == Cell::Life::kStopped) cell_->give_back_track();
  }

  Cell* const cell_;
  Cell* const outer_;
  std::optional<traces::TrackScope> scope_;
};

// Not inlined: a coroutine must not keep the address of a thread_local across a suspension.
[[gnu::noinline]] Cell* Cell::current() {
  return current_cell;
}

void Cell::post(Node* node) {
  node->target = this;
  if (traces::on()) [[unlikely]] {
    node->posted = Node::posted_now();
    traces::sent(node->ops->turn, name_, node->flow());
  }
  home_->post(node);
}

void Cell::accept(Node* node) {
  const Life now = life();
  const NodeKind kind = node->ops->kind;
  const bool is_message = kind == NodeKind::kMessage || kind == NodeKind::kParked;
  if (now == Life::kStopped || (now == Life::kStopping && is_message)) {
    node->ops->bounce(node, ErrorCode::kStopped);
    return;
  }
  mailbox_.put(node);
  schedule();
}

void Cell::schedule() {
  if (scheduled_) return;
  scheduled_ = true;
  home_->make_ready(*this);
}

bool Cell::run() {
  const CurrentCell scope(this);
  const std::uint64_t begin = ticks();
  const std::uint64_t slice = time_slice_ticks();
  for (int turn = 0; turn < kQuantum; ++turn) {
    Node* node = mailbox_.take(takes_messages());
    if (node == nullptr) break;
    turns_.store(turns() + 1, std::memory_order_relaxed);
    if (scope.traced()) [[unlikely]] {
      run_traced(node);
    } else {
      node->ops->run(node, *this);
    }
    if (stop_requested()) begin_stop(stop_reason_.load(std::memory_order_relaxed), {});
    if (life() == Life::kStopped) return true;
    if (watchful_ > 0 || turn % kTurnsBetweenLooks == kTurnsBetweenLooks - 1) {
      if (ticks() - begin > slice) {
        watchful_ = kWatchfulTurns;
        break;
      }
      if (watchful_ > 0) --watchful_;
    }
  }
  scheduled_ = false;
  if (mailbox_.has_work(takes_messages())) schedule();
  return false;
}

// The node is gone when its turn ends.
void Cell::run_traced(Node* node) {
  traces::Zone zone(node->ops->turn);
  if (const std::int64_t waited = node->waited_ns(); waited >= 0) zone.waited(waited, node->flow());
  const bool on_own_track = traces::Track::current() != nullptr && traces::profiler::kHasTracks;
  if (!on_own_track && zone.on()) zone.text(name_);
  node->ops->run(node, *this);
}

void Cell::begin(std::unique_ptr<Activation> owned) {
  Activation& activation = *owned.release();
  activation.cell_ = this;
  activation.following_ = activations_;
  if (activations_ != nullptr) activations_->previous_ = &activation;
  activations_ = &activation;
  if (activation.role_ == Activation::Role::kHandler) {
    handlers_.store(suspended_handlers() + 1, std::memory_order_relaxed);
    home_->count_handlers(+1);
  }
  resume(activation, activation.root());
}

void Cell::resume(Activation& activation, std::coroutine_handle<> where) {
  if (activation.run(where)) finish_activation(activation);
}

void Cell::finish_activation(Activation& activation) {
  try {
    activation.finish();
  } catch (...) {
    drop_activation(activation);
    fail(std::current_exception());
    return;
  }
  drop_activation(activation);
}

void Cell::drop_activation(Activation& activation) {
  if (activation.previous_ != nullptr) {
    activation.previous_->following_ = activation.following_;
  } else {
    activations_ = activation.following_;
  }
  if (activation.following_ != nullptr) activation.following_->previous_ = activation.previous_;
  if (activation.role_ == Activation::Role::kHandler) {
    handlers_.store(suspended_handlers() - 1, std::memory_order_relaxed);
    home_->count_handlers(-1);
  }
  delete &activation;
}

void Cell::drop_all_activations() {
  while (activations_ != nullptr) drop_activation(*activations_);
}

}  // namespace reprise::runtime
