#include "runtime/system.h"

#include <algorithm>
#include <cstdio>

#include "base/check.h"
#include "base/machine.h"
#include "runtime/detail/thread_executor.h"

namespace reprise::runtime {

namespace {

void print_failure(ActorId who, const char* name, const std::string& why) {
  std::fprintf(stderr, "actor %s #%llu failed: %s\n", name, static_cast<unsigned long long>(who),
               why.c_str());
}
void print_escalation(ActorId who, const char* name, const std::string& why) {
  std::fprintf(stderr, "actor %s #%llu failed and has no supervisor: %s\n", name,
               static_cast<unsigned long long>(who), why.c_str());
}

ActorInfo describe(Cell& cell, Executor& executor) {
  const Executor::Running running = executor.running();
  const std::uint64_t now = ticks();
  const bool runs = running.actor == cell.id() && now > running.since;
  return {.id = cell.id(),
          .name = cell.name(),
          .life = cell.life(),
          .executor = executor.index(),
          .mailbox_depth = cell.mailbox().depth(),
          .suspended_handlers = cell.suspended_handlers(),
          .turns = cell.turns(),
          .busy_ns = ticks_to_ns(cell.busy_ticks()),
          .running_ns = runs ? ticks_to_ns(now - running.since) : 0};
}

std::shared_ptr<SystemCore> make_core(FailureHooks hooks) {
  if (!hooks.on_failure) hooks.on_failure = print_failure;
  if (!hooks.on_escalation) hooks.on_escalation = print_escalation;
  return std::make_shared<SystemCore>(std::move(hooks));
}

void nap() {
  if (Clock::virtual_time() != nullptr) return;  // time passes in Executor::help()
  std::this_thread::sleep_for(std::chrono::microseconds(200));
}

}  // namespace

const char* to_string(Cell::Life life) {
  switch (life) {
    case Cell::Life::kStarting:
      return "starting";
    case Cell::Life::kRunning:
      return "running";
    case Cell::Life::kRestarting:
      return "restarting";
    case Cell::Life::kStopping:
      return "stopping";
    case Cell::Life::kStopped:
      return "stopped";
  }
  return "unknown";
}

System::System(SystemOptions options) : core_(make_core(std::move(options.hooks))) {
  workers_ = options.workers != 0 ? options.workers : available_processors();
  std::vector<ExecutorPtr> pool;
  for (unsigned i = 0; i < workers_; ++i) {
    auto* worker = new ThreadExecutor(core_, ThreadExecutor::Kind::kWorker);
    pool.push_back(ExecutorPtr::adopt(worker));
    core_->add_executor(pool.back());
    worker->start(options.thread_name + "/" + std::to_string(i));
  }
  core_->set_pool(std::move(pool));
}

System::System(FailureHooks hooks, const MakeExecutor& make)
    : core_(make_core(std::move(hooks))), workers_(1) {
  const ExecutorPtr only = make(core_);
  core_->add_executor(only);
  core_->set_pool({only}, /*own_threads=*/false);
}

System::~System() {
  if (!stopped_) static_cast<void>(stop());
}

void System::refuse_while_stopping() const {
  if (closed_to_outside_.load(std::memory_order_relaxed)) throw SystemStopped();
}

std::vector<ActorInfo> System::actors(std::size_t most) const {
  std::vector<ActorInfo> infos;
  for (const ExecutorPtr& executor : core_->executors()) {
    executor->for_each_resident([&](Cell& cell) {
      if (infos.size() < most) infos.push_back(describe(cell, *executor));
    });
  }
  return infos;
}

std::size_t System::actor_count() const {
  std::size_t count = 0;
  for (const ExecutorPtr& executor : core_->executors()) count += executor->population();
  return count;
}

bool System::drain(TimePoint deadline) {
  // Idle twice with equal activity: no executor ran a round between the two checks, so all were idle at one
  // moment.
  std::vector<std::uint64_t> before;
  while (true) {
    std::vector<std::uint64_t> now;
    bool idle = true;
    for (const ExecutorPtr& executor : core_->executors()) {
      now.push_back(executor->activity());
      idle = idle && executor->idle() && executor->suspended_handlers() == 0;
      if (!idle) executor->help();
    }
    if (idle && now == before) return true;
    before = idle ? std::move(now) : std::vector<std::uint64_t>();
    if (Clock::now() >= deadline) return false;
    if (!idle) nap();
  }
}

bool System::stop_actors(TimePoint deadline) {
  core_->begin_stopping();
  while (true) {
    // Repeated, because a turn in progress may still spawn an actor.
    std::vector<CellPtr> roots;
    std::size_t alive = 0;
    for (const ExecutorPtr& executor : core_->executors()) {
      executor->for_each_resident([&](Cell& cell) {
        ++alive;
        if (cell.parent() == nullptr && !cell.stop_requested()) {
          roots.emplace_back(&cell);
        }
      });
    }
    if (alive == 0) return true;
    for (const CellPtr& root : roots) root->request_stop(StopReason::kSystemStopping);
    for (const ExecutorPtr& executor : core_->executors()) executor->help();
    if (Clock::now() >= deadline) return false;
    nap();
  }
}

StopReport System::stop(Duration drain_bound, Duration bound) {
  REPRISE_CHECK(Executor::current() == nullptr, "a system was stopped from one of its actors' turns");
  StopReport report;
  if (stopped_) return {.drained = true, .complete = true};
  stopped_ = true;
  closed_to_outside_.store(true, std::memory_order_relaxed);
  report.drained = drain(Clock::now() + drain_bound);
  const TimePoint deadline = Clock::now() + bound;
  report.complete = stop_actors(deadline);
  if (!report.complete) report.stuck = actors();
  const std::vector<ExecutorPtr> executors = core_->executors();
  for (const ExecutorPtr& executor : executors) executor->finish();
  for (const ExecutorPtr& executor : executors) {
    const bool alone = executor->population() == 0;
    const bool ended =
        executor->wait_ended(alone ? Clock::now() + std::chrono::seconds(5) : TimePoint::min());
    report.complete = report.complete && ended;
    executor->join_or_leave();
  }
  core_->forget_executors();
  return report;
}

}  // namespace reprise::runtime
