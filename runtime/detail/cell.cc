#include "runtime/detail/cell.h"

#include <deque>
#include <optional>
#include <vector>

#include "base/check.h"
#include "runtime/detail/pool.h"
#include "runtime/detail/system_core.h"
#include "runtime/executor.h"
#include "runtime/message.h"
#include "traces/trace.h"

namespace reprise::runtime {

/// Optional state of a cell, allocated on first use: most actors need none of it.
struct CellLinks {
  struct RestartTimer : TimerEntry {
    explicit RestartTimer(Cell& owner) : TimerEntry(fire), cell(owner) {}
    static void fire(TimerEntry& entry);
    Cell& cell;
  };

  Cell* first_child = nullptr;
  std::uint32_t children = 0;
  std::vector<CellPtr> watchers;
  std::unique_ptr<ActorFactory> factory;
  std::deque<TimePoint> failures;  // within the window; at most OnFailure::restarts + 1
  std::unique_ptr<RestartTimer> restart_timer;
  std::string why;
  traces::Track* track = nullptr;  // profiler track of its turns; borrowed for the first traced turn

  ~CellLinks() { traces::Track::give_back(track); }
};

namespace {

constexpr int kTurnsBetweenLooks = 8;  // turns between clock checks while turns are short
// Turns after a long one with a clock check after each, so that an actor that mixes long and short turns
// yields after each long one instead of delaying other arrivals by several.
constexpr int kWatchfulTurns = 256;

thread_local Cell* current_cell = nullptr;

/// A control node that calls a function of the cell.
template <class Do>
struct ControlNode : Node, Pooled {
  explicit ControlNode(Do action) : Node(&kOps), act(std::move(action)) {}

  static void run_node(Node* node, Cell& cell) {
    const std::unique_ptr<ControlNode> control(static_cast<ControlNode*>(node));
    control->act(&cell);
  }
  static void bounce_node(Node* node, ErrorCode) {
    const std::unique_ptr<ControlNode> control(static_cast<ControlNode*>(node));
    control->act(nullptr);
  }
  static constexpr NodeOps kOps{NodeKind::kControl, "control", nullptr, run_node, bounce_node};

  Do act;
};

/// Posts a call of `act`: with the cell, on its executor; or with null, on any thread, if the actor has stopped.
template <class Do>
void post_control(Cell& cell, Do act) {
  cell.post(new ControlNode<Do>(std::move(act)));
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

void send_down(Cell& watcher, const Down& down) {
  auto* message = new Message<Down>(down);
  watcher.mailbox().admit_always();
  watcher.post(message);
}

constexpr std::size_t actor_offset() {
  constexpr std::size_t alignment = alignof(std::max_align_t);
  return (sizeof(Cell) + alignment - 1) / alignment * alignment;
}

}  // namespace

/// Sets current_cell for its lifetime and, while tracing, enters the cell's track.
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
    scope_.reset();  // before the track can be given to another cell
    if (cell_->life() == Cell::Life::kStopped) cell_->give_back_track();
  }

  Cell* const cell_;
  Cell* const outer_;
  std::optional<traces::TrackScope> scope_;
};

const char* to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kStopped:
      return "stopped";
    case StopReason::kFailed:
      return "failed";
    case StopReason::kOutOfRestarts:
      return "out of restarts";
    case StopReason::kSystemStopping:
      return "system stopping";
  }
  return "unknown reason";
}

// -- turns

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
  executor_->post(node);
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
  executor_->make_ready(*this);
}

bool Cell::run(int most_turns) {
  const CurrentCell scope(this);
  const std::uint64_t begin = ticks();
  const std::uint64_t slice = time_slice_ticks();
  for (int turn = 0; turn < most_turns; ++turn) {
    Node* node = mailbox_.take(takes_messages());
    if (node == nullptr) break;
    turns_.store(turns() + 1, std::memory_order_relaxed);
    if (scope.traced()) [[unlikely]] {
      run_traced(node);
    } else {
      node->ops->run(node, *this);
    }
    if (stop_requested()) begin_stop(requested_reason_.load(std::memory_order_relaxed), {});
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

// The run destroys the node.
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
    executor_->count_handlers(+1);
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
    executor_->count_handlers(-1);
  }
  delete &activation;
}

void Cell::drop_all_activations() {
  while (activations_ != nullptr) drop_activation(*activations_);
}

// -- creation

Cell::Cell(const Birth& birth, std::size_t allocated)
    : type_(birth.type),
      executor_(&birth.executor),
      parent_(birth.parent),
      name_(birth.name),
      id_(birth.executor.core().next_id()),
      allocated_(static_cast<std::uint32_t>(allocated)),
      on_failure_(birth.on_failure),
      mailbox_(birth.type.mailbox) {
  executor_->add_ref();
  if (parent_ != nullptr) parent_->add_ref();
}

Cell::~Cell() {
  if (actor_ != nullptr) type_.destroy(actor_);  // constructed, but never launched
  if (parent_ != nullptr) parent_->release();
  executor_->release();
}

Cell* Cell::create(const Birth& birth) {
  REPRISE_CHECK(birth.actor_alignment <= alignof(std::max_align_t), "an actor class is over-aligned");
  const std::size_t bytes = actor_offset() + birth.actor_bytes;
  void* memory = pool_allocate(bytes);
  return new (memory) Cell(birth, bytes);
}

void Cell::destroy(Cell* cell) {
  const std::size_t bytes = cell->allocated_;
  cell->~Cell();
  pool_free(cell, bytes);
}

void* Cell::actor_storage() const {
  return reinterpret_cast<std::byte*>(const_cast<Cell*>(this)) + actor_offset();
}

CellLinks& Cell::links() {
  if (links_ == nullptr) links_ = std::make_unique<CellLinks>();
  return *links_;
}

traces::Track* Cell::borrow_track() {
  traces::Track*& track = links().track;
  if (track == nullptr) track = traces::Track::borrow(name_);
  return track;
}

void Cell::give_back_track() {
  if (links_ != nullptr) traces::Track::give_back(std::exchange(links_->track, nullptr));
}

void Cell::set_factory(std::unique_ptr<ActorFactory> factory) {
  links().factory = std::move(factory);
}

bool Cell::launch() {
  add_ref();  // the cell's reference to itself, held until it has stopped
  if (type_.on_start == nullptr) life_.store(Life::kRunning, std::memory_order_relaxed);
  if (!executor_->enter(*this)) {
    life_.store(Life::kStopped, std::memory_order_relaxed);
    mailbox_.close();
    release();
    return false;
  }
  if (parent_ != nullptr) {
    CellLinks& family = parent_->links();
    next_sibling_ = family.first_child;
    if (family.first_child != nullptr) family.first_child->previous_sibling_ = this;
    family.first_child = this;
    ++family.children;
    add_ref();
  }
  if (type_.on_start != nullptr) {
    post_control(*this, [](Cell* cell) {
      if (cell != nullptr) cell->start();
    });
  }
  return true;
}

void Cell::start() {
  if (life() != Life::kStarting) return;
  if (type_.on_start == nullptr) {
    life_.store(Life::kRunning, std::memory_order_relaxed);
    return;
  }
  type_.on_start(*this);
}

// -- failure and restart

void Cell::fail(std::exception_ptr error) {
  const std::string why = text_of(error);
  const FailureHooks& hooks = executor_->core().hooks();
  if (hooks.on_failure) hooks.on_failure(id_, name_, why);
  if (life() == Life::kStopping) return;
  if (on_failure_.action != OnFailure::Do::kRestart) {
    begin_stop(StopReason::kFailed, why);
    return;
  }
  std::deque<TimePoint>& failures = links().failures;
  const TimePoint now = Clock::now();
  while (!failures.empty() && now - failures.front() > on_failure_.window) failures.pop_front();
  failures.push_back(now);
  if (failures.size() > on_failure_.restarts) {
    begin_stop(StopReason::kOutOfRestarts, why);
    return;
  }
  if (life() == Life::kRestarting) return;
  life_.store(Life::kRestarting, std::memory_order_relaxed);
  drop_all_activations();
  stop_children();
  continue_ending();
}

void CellLinks::RestartTimer::fire(TimerEntry& entry) {
  Cell& cell = static_cast<RestartTimer&>(entry).cell;
  post_control(cell, [](Cell* still_there) {
    if (still_there != nullptr) still_there->continue_restart();
  });
}

void Cell::restart() {
  if (on_failure_.delay == Duration{}) return continue_restart();
  if (links().restart_timer == nullptr)
    links().restart_timer = std::make_unique<CellLinks::RestartTimer>(*this);
  executor_->arm(*links().restart_timer, Clock::now() + on_failure_.delay);
}

void Cell::continue_restart() {
  if (life() != Life::kRestarting) return;
  if (actor_ != nullptr) type_.destroy(std::exchange(actor_, nullptr));
  try {
    actor_ = links().factory->make(*this);
  } catch (...) {
    life_.store(Life::kStarting, std::memory_order_relaxed);
    return fail(std::current_exception());
  }
  life_.store(Life::kStarting, std::memory_order_relaxed);
  start();
}

// -- end

void Cell::request_stop(StopReason reason) {
  if (stop_requested_.exchange(true, std::memory_order_relaxed)) return;
  requested_reason_.store(reason, std::memory_order_relaxed);
  post_control(*this, [reason](Cell* cell) {
    if (cell != nullptr) cell->begin_stop(reason, {});
  });
}

void Cell::begin_stop(StopReason reason, std::string why) {
  if (life() >= Life::kStopping) return;
  life_.store(Life::kStopping, std::memory_order_relaxed);
  mailbox_.close();
  stop_reason_ = reason;
  if (!why.empty()) links().why = std::move(why);
  drop_all_activations();
  mailbox_.bounce_waiting(ErrorCode::kStopped);
  stop_children();
  continue_ending();
}

void Cell::stop_children() {
  if (links_ == nullptr) return;
  const bool all_stops = stop_reason_ == StopReason::kSystemStopping;
  for (Cell* child = links_->first_child; child != nullptr; child = child->next_sibling_) {
    child->request_stop(all_stops ? StopReason::kSystemStopping : StopReason::kStopped);
  }
}

void Cell::child_ended(Cell& child) {
  if (child.previous_sibling_ != nullptr) {
    child.previous_sibling_->next_sibling_ = child.next_sibling_;
  } else {
    links_->first_child = child.next_sibling_;
  }
  if (child.next_sibling_ != nullptr) child.next_sibling_->previous_sibling_ = child.previous_sibling_;
  --links_->children;
  child.release();
  continue_ending();
}

/// Continues a stop or a restart once no children are left.
void Cell::continue_ending() {
  if (links_ != nullptr && links_->children != 0) return;
  if (life() == Life::kStopping) {
    finish_stop();
  } else if (life() == Life::kRestarting) {
    restart();
  }
}

void Cell::finish_stop() {
  const StopReason reason = stop_reason_;
  const bool orderly = reason == StopReason::kStopped || reason == StopReason::kSystemStopping;
  if (actor_ != nullptr) {
    if (orderly && type_.on_stop != nullptr) {
      try {
        type_.on_stop(*this);
      } catch (...) {
        fail(std::current_exception());  // only reported: the actor is stopping already
      }
      drop_all_activations();
    }
    type_.destroy(std::exchange(actor_, nullptr));
  }
  const std::string why = links_ != nullptr ? links_->why : std::string();
  if (!why.empty()) last_words_ = std::make_unique<const std::string>(why);
  life_.store(Life::kStopped, std::memory_order_relaxed);
  if (links_ != nullptr) {
    for (const CellPtr& watcher : links_->watchers) send_down(*watcher, Down{id_, reason, why});
  }
  mailbox_.bounce_all(ErrorCode::kStopped);
  const bool escalates =
      (reason == StopReason::kFailed && on_failure_.action == OnFailure::Do::kEscalate) ||
      (reason == StopReason::kOutOfRestarts && on_failure_.then == OnFailure::Do::kEscalate);
  const std::string escalation = escalates ? std::string(name_) + " failed: " + why : std::string();
  if (parent_ != nullptr) {
    post_control(*parent_, [child = CellPtr(this), escalation](Cell* parent) {
      if (parent == nullptr) return;
      // Before the end is noted: that may end or restart the parent, and the failure belongs to the actor before.
      if (!escalation.empty()) parent->child_escalated(escalation);
      parent->child_ended(*child);
    });
  } else if (escalates) {
    const FailureHooks& hooks = executor_->core().hooks();
    if (hooks.on_escalation) hooks.on_escalation(id_, name_, why);
  }
  links_.reset();
  executor_->leave(*this);
}

void Cell::child_escalated(const std::string& why) {
  fail(std::make_exception_ptr(std::runtime_error(why)));
}

void Cell::add_watcher(Cell& watcher) {
  post_control(*this, [self = CellPtr(this), watcher = CellPtr(&watcher)](Cell* cell) {
    if (cell != nullptr) {
      cell->links().watchers.push_back(watcher);
      return;
    }
    // The cell has stopped; its executor wrote these fields before that, and Executor::ring() gives the ordering.
    send_down(*watcher, Down{self->id_, self->stop_reason_,
                             self->last_words_ != nullptr ? *self->last_words_ : std::string()});
  });
}

}  // namespace reprise::runtime
