// The benchmarks of savina.h on CAF 0.17. All actors are event-based and class-based: handlers are lambdas
// that hold nothing but `this`, so a message costs the one allocation of its mailbox element. Messages
// consist of CAF's built-in integer types, which it matches by number; each kind of message of an actor has
// its own type, the frequent one first. They need no registration.
#pragma once

#include <caf/all.hpp>
#include <utility>

#include "tools/lab/bench/savina.h"

namespace reprise::bench {

class CafRuntime {
 public:
  static constexpr const char* kName = "caf";

  explicit CafRuntime(int threads) : config_(threads), system_(config_) {}

  Result run(const PingPong& bench);
  Result run(const Counting& bench);
  Result run(const ThreadRing& bench);
  Result run(const Chameneos& bench);
  Result run(const Big& bench);
  Result run(const ForkJoinThroughput& bench);
  Result run(const ForkJoinCreate& bench);
  Result run(const ConcurrentDictionary& bench);
  Result run(const Ask& bench);
  Result run(const Idle& bench);

 private:
  // The scheduling policy is CAF's default, work stealing without a limit on messages per turn.
  struct Config : caf::actor_system_config {
    explicit Config(int threads) { set("scheduler.max-threads", static_cast<std::size_t>(threads)); }
  };

  /// Spawns the actor `main` and waits until the run is over and all actors have ended.
  template <class Main, class... Args>
  Result run_main(Outcome& outcome, Args&&... args) {
    system_.spawn<Main>(std::forward<Args>(args)...);
    Result result = outcome.wait();
    system_.await_all_actors_done();
    return result;
  }

  Config config_;
  caf::actor_system system_;
};

}  // namespace reprise::bench
