// Birth, failure, restart and end of an actor: the slow half of Cell.

#include <deque>
#include <vector>

#include "base/check.h"
#include "runtime/actor_factory.h"
#include "runtime/cell.h"
#include "runtime/home.h"
#include "runtime/message.h"
#include "runtime/pool.h"
#include "runtime/system_core.h"

namespace reprise::runtime {

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

/// What most actors never need.
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
  traces::Track* track = nullptr;  // where its turns are drawn; borrowed for its first turn that is traced

  ~CellLinks() { traces::Track::give_back(track); }
};

namespace {

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

/// `act` is called with the cell, on its home; or with null, on any thread, if the actor has stopped.
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

// -- birth

Cell::Cell(const Birth& birth, std::size_t allocated)
    : type_(birth.type),
      home_(&birth.home),
      parent_(birth.parent),
      name_(birth.name),
      id_(birth.home.core().next_id()),
      allocated_(static_cast<std::uint32_t>(allocated)),
      on_failure_(birth.on_failure),
      mailbox_(birth.type.mailbox) {
  home_->add_ref();
  if (parent_ != nullptr) parent_->add_ref();
}

Cell::~Cell() {
  if (actor_ != nullptr) type_.destroy(actor_);  // made, but never launched
  if (parent_ != nullptr) parent_->release();
  home_->release();
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
  add_ref();  // the cell's own, until it has stopped
  if (type_.on_start == nullptr) life_.store(Life::kRunning, std::memory_order_relaxed);
  if (!home_->enter(*this)) {
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
  const FailureHooks& hooks = home_->core().hooks();
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
  home_->arm(*links().restart_timer, Clock::now() + on_failure_.delay);
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
  stop_reason_.store(reason, std::memory_order_relaxed);
  post_control(*this, [reason](Cell* cell) {
    if (cell != nullptr) cell->begin_stop(reason, {});
  });
}

void Cell::begin_stop(StopReason reason, std::string why) {
  if (life() >= Life::kStopping) return;
  life_.store(Life::kStopping, std::memory_order_relaxed);
  mailbox_.close();
  stop_reason_.store(reason, std::memory_order_relaxed);
  if (!why.empty()) links().why = std::move(why);
  drop_all_activations();
  mailbox_.bounce_waiting(ErrorCode::kStopped);
  stop_children();
  continue_ending();
}

void Cell::stop_children() {
  if (links_ == nullptr) return;
  const bool all_stops = stop_reason_.load(std::memory_order_relaxed) == StopReason::kSystemStopping;
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

/// Children first: goes on with a stop or a restart once none is left.
void Cell::continue_ending() {
  if (links_ != nullptr && links_->children != 0) return;
  if (life() == Life::kStopping) {
    finish_stop();
  } else if (life() == Life::kRestarting) {
    restart();
  }
}

void Cell::finish_stop() {
  const StopReason reason = stop_reason_.load(std::memory_order_relaxed);
  const bool orderly = reason == StopReason::kStopped || reason == StopReason::kSystemStopping;
  if (actor_ != nullptr) {
    if (orderly && type_.on_stop != nullptr) {
      try {
        type_.on_stop(*this);
      } catch (...) {
        fail(std::current_exception());  // only reported: it is stopping
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
      parent->child_ended(*child);
      if (!escalation.empty()) parent->child_escalated(escalation);
    });
  } else if (escalates) {
    const FailureHooks& hooks = home_->core().hooks();
    if (hooks.on_escalation) hooks.on_escalation(id_, name_, why);
  }
  links_.reset();
  home_->leave(*this);
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
    // It has stopped. What is read here was written before it did, by its home; see Home::ring() for the
    // order.
    send_down(*watcher, Down{self->id_, self->stop_reason_.load(std::memory_order_relaxed),
                             self->last_words_ != nullptr ? *self->last_words_ : std::string()});
  });
}

}  // namespace reprise::runtime
