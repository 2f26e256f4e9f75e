#pragma once
// An actor system: a pool of workers, and everything that lives on it. Start reading here, then
// runtime/actor.h.
//
//   System system({.workers = 4});
//   auto counter = system.spawn<Counter>();
//   counter.tell(Add{2});
//   Result<int> total = counter.ask_blocking(Total{}, 1s);
//   system.stop();
//
// A program may have several systems, and references may cross between them. Nothing here needs main(),
// signals or an event loop; a host's own io_context can be made a home for actors (runtime/asio_home.h).
//
// stop() goes through three phases: drain (nothing is spawned from outside; what is in the mailboxes, and the
// handlers that are suspended, are worked off), stop (children before parents; what still waits bounces with
// kStopped), join. Each is bounded; a turn that hangs is named in the report, and its thread is left behind
// with all that it refers to.
//
// Threading: any thread that is no actor's.

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/actor.h"
#include "runtime/system_core.h"

namespace reprise::runtime {

struct SystemOptions {
  unsigned workers = 0;                // 0: one for each core
  std::string thread_name = "actors";  // workers are called actors/0, actors/1, ...
  /// By default both print a line to stderr.
  FailureHooks hooks{};
};

/// A look at one actor from outside. Figures are read without stopping it and may be a turn apart.
struct ActorInfo {
  ActorId id;
  std::string name;
  Cell::Life life;
  std::uint32_t home;  // index of where it lives
  std::uint32_t mailbox_depth;
  std::uint32_t suspended_handlers;
  std::uint64_t turns;
  std::uint64_t busy_ns;     // in completed turns
  std::uint64_t running_ns;  // of the turn in progress; 0 if none
};

const char* to_string(Cell::Life life);

struct StopReport {
  bool drained = false;            // nothing was left undone when actors were told to stop
  bool complete = false;           // every actor has stopped and every thread was joined
  std::vector<ActorInfo> stuck{};  // who had not stopped when the time was up
};

class System {
 public:
  explicit System(SystemOptions options = {});
  ~System();  // stop() with its defaults, if that was not done
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  /// An actor without parent. Throws SystemStopped, or what the constructor of A throws.
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

  /// The first `most` actors found, with their figures.
  std::vector<ActorInfo> actors(std::size_t most = 10'000) const;
  std::size_t actor_count() const;
  /// Messages that reached nobody and that nobody waited for.
  std::uint64_t dead_letters() const { return core_->dead_letters(); }
  unsigned workers() const { return workers_; }

  const std::shared_ptr<SystemCore>& core() const { return core_; }

 private:
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
