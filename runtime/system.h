#pragma once
// An actor system: a pool of workers and the actors on it. Start reading here, then in runtime/actor.h.
//
//   System system({.workers = 4});
//   auto counter = system.spawn<Counter>();
//   counter.tell(Add{2});
//   Result<int> total = counter.ask_blocking(Total{}, 1s);
//   system.stop();
//
// A program may have several systems, and references may cross between them. No main(), signals or event loop
// is needed; a host's io_context can be an executor for actors (runtime/interop/asio_executor.h).
//
// stop() has three phases, each bounded in time: drain (no spawns from outside; waiting messages and
// suspended handlers complete), stop (children before parents; waiting messages bounce with kStopped), join.
// The report names actors with hanging turns; their threads are left behind with all that they refer to.
//
// Threading: any thread that does not run actors.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/actor.h"
#include "runtime/detail/system_core.h"

namespace reprise::runtime {

struct SystemOptions {
  unsigned workers = 0;                // threads; 0: one per core
  std::string thread_name = "actors";  // prefix of the workers' names: actors/0, actors/1, ...
  /// Both print a line to stderr by default.
  FailureHooks hooks{};
};

/// Figures are read without stopping the actor and may be a turn apart.
struct ActorInfo {
  ActorId id;
  std::string name;
  Cell::Life life;
  std::uint32_t executor;  // index of its executor
  std::uint32_t mailbox_depth;
  std::uint32_t suspended_handlers;
  std::uint64_t turns;
  std::uint64_t busy_ns;     // in completed turns
  std::uint64_t running_ns;  // of the current turn; 0: none
};

const char* to_string(Cell::Life life);

struct StopReport {
  bool drained = false;            // nothing was left to do when actors were told to stop
  bool complete = false;           // all actors have stopped, all threads were joined
  std::vector<ActorInfo> stuck{};  // not stopped in time
};

class System {
 public:
  explicit System(SystemOptions options = {});
  ~System();  // stop() with its defaults, unless it was called
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  /// Throws SystemStopped, or what the constructor of A throws.
  template <class A, class... Args>
  RefOf<A> spawn(SpawnOptions options, Args&&... args) {
    refuse_while_stopping();
    return actor_detail::spawn<A>(*core_, nullptr, options, std::forward<Args>(args)...);
  }
  template <class A>
  RefOf<A> spawn() {
    return spawn<A>(SpawnOptions{});
  }

  StopReport stop(Duration drain = std::chrono::seconds(5), Duration bound = std::chrono::seconds(5));

  /// Describes the first `most` actors found.
  std::vector<ActorInfo> actors(std::size_t most = 10'000) const;
  std::size_t actor_count() const;
  /// Messages without receiver whose sender awaits no answer.
  std::uint64_t dead_letters() const { return core_->dead_letters(); }
  unsigned workers() const { return workers_; }

  const std::shared_ptr<SystemCore>& core() const { return core_; }

 private:
  friend class Simulator;
  using MakeExecutor = std::function<ExecutorPtr(const std::shared_ptr<SystemCore>&)>;

  /// A system without threads: all actors run on the one executor that `make` returns.
  System(FailureHooks hooks, const MakeExecutor& make);

  void refuse_while_stopping() const;
  bool drain(TimePoint deadline);
  bool stop_actors(TimePoint deadline);

  std::shared_ptr<SystemCore> core_;
  unsigned workers_ = 0;
  // Relaxed: a spawn that misses it is stopped like any other actor.
  std::atomic<bool> closed_to_outside_{false};
  bool stopped_ = false;
};

}  // namespace reprise::runtime
