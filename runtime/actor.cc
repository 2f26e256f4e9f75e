#include "runtime/actor.h"

#include "runtime/detail/system_core.h"
#include "runtime/detail/thread_executor.h"
#include "runtime/names.h"

namespace reprise::runtime {

namespace {

/// Runs a Task<void>: a launched one, or a coroutine on_start().
class TaskActivation : public Activation, public Pooled {
 public:
  TaskActivation(Role role, Task<void> task, bool starts_actor)
      : Activation(role), task_(std::move(task)), starts_actor_(starts_actor) {
    task_.handle().promise().set_activation(*this);
  }
  std::coroutine_handle<> root() const override { return task_.handle(); }
  void finish() override {
    task_.handle().promise().take();
    if (starts_actor_) cell().started();
  }

 private:
  Task<void> task_;
  const bool starts_actor_;
};

/// Starts a launched task in a turn of its own, so that it does not run nested in the launching coroutine.
struct LaunchNode : Node, Pooled {
  explicit LaunchNode(Task<void> launched) : Node(&kOps), task(std::move(launched)) {}

  static void run_node(Node* node, Cell& cell) {
    const std::unique_ptr<LaunchNode> launch(static_cast<LaunchNode*>(node));
    cell.begin(
        std::make_unique<TaskActivation>(Activation::Role::kBackground, std::move(launch->task), false));
  }
  static void bounce_node(Node* node, ErrorCode) { delete static_cast<LaunchNode*>(node); }
  static constexpr NodeOps kOps{NodeKind::kContinuation, "launch", nullptr, run_node, bounce_node};

  Task<void> task;
};

thread_local Cell* cell_in_construction = nullptr;

}  // namespace

const char* to_string(SendStatus status) {
  switch (status) {
    case SendStatus::kSent:
      return "sent";
    case SendStatus::kMailboxFull:
      return "mailbox full";
    case SendStatus::kStopped:
      return "actor stopped";
  }
  return "unknown status";
}

void note_dead_letter(Cell& target) {
  target.executor().core().note_dead_letter();
}

Actor::Actor() : cell_(actor_detail::Construction::current()) {
  REPRISE_CHECK(cell_ != nullptr, "an actor was made without spawn()");
}

void Actor::launch(Task<void> task) {
  require_constructed();
  cell_->post(new LaunchNode(std::move(task)));
}

void Actor::stop() {
  require_constructed();
  cell_->stop_after_turn();
}

void Actor::require_constructed() const {
  REPRISE_CHECK(actor_detail::Construction::current() != cell_,
                "an actor used its reference, launched or stopped in its constructor; do so in on_start()");
}

namespace actor_detail {

Construction::Construction(Cell& cell) : outer_(std::exchange(cell_in_construction, &cell)) {}
Construction::~Construction() {
  cell_in_construction = outer_;
}
Cell* Construction::current() {
  return cell_in_construction;
}

void begin_start(Cell& cell, Task<void> on_start) {
  cell.begin(std::make_unique<TaskActivation>(Activation::Role::kHandler, std::move(on_start), true));
}

SystemCore& core_of(const Cell& cell) {
  return cell.executor().core();
}

namespace {

ExecutorPtr choose_executor(SystemCore& core, const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::kPool:
      return ExecutorPtr(&core.choose_worker());
    case Placement::Kind::kHome:
      return placement.executor;
    case Placement::Kind::kNear:
      REPRISE_CHECK(Executor::current() != nullptr, "Placement::near() outside an actor's turn");
      return ExecutorPtr(Executor::current());
    case Placement::Kind::kOwnThread:
      if (!core.own_threads()) return ExecutorPtr(&core.choose_worker());
      return ExecutorPtr::adopt(new ThreadExecutor(core.shared_from_this(), ThreadExecutor::Kind::kOwn));
  }
  REPRISE_CHECK(false, "an unknown placement");
  return {};
}

}  // namespace

CellPtr make_cell(SystemCore& core, Cell* parent, const ActorType& type, std::size_t actor_bytes,
                  std::size_t actor_alignment, const SpawnOptions& options) {
  if (core.stopping()) throw SystemStopped();
  const ExecutorPtr executor = choose_executor(core, options.placement);
  return CellPtr::adopt(Cell::create({.type = type,
                                      .executor = *executor,
                                      .parent = parent,
                                      .name = intern_name(options.name, type.name),
                                      .on_failure = options.on_failure,
                                      .actor_bytes = actor_bytes,
                                      .actor_alignment = actor_alignment}));
}

void launch_cell(Cell& cell) {
  if (!cell.launch()) throw SystemStopped();
  cell.executor().actor_ready(cell);
}

}  // namespace actor_detail

}  // namespace reprise::runtime
