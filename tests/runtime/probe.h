#pragma once
// Helpers shared by the runtime tests.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/system.h"
#include "tests/eventually.h"

namespace reprise::runtime {

using namespace std::chrono_literals;  // NOLINT: tests only

/// Hooks that print nothing, for failures that a test provokes.
inline FailureHooks quiet() {
  return {.on_failure = [](ActorId, const char*, const std::string&) {},
          .on_escalation = [](ActorId, const char*, const std::string&) {}};
}

/// Counts its live instances.
struct Counted {
  static inline std::atomic<int> alive{0};
  Counted() { ++alive; }
  Counted(const Counted&) { ++alive; }
  Counted(Counted&&) noexcept { ++alive; }
  Counted& operator=(const Counted&) = default;
  Counted& operator=(Counted&&) noexcept = default;
  ~Counted() { --alive; }
};

/// Runs a coroutine in an actor: `Result<int> r = run_in_actor(system, coroutine)`.
struct RunTask {
  using Reply = int;
  Task<int> (*body)(void*);
  void* argument;
};
class Runner : public Actor {
 public:
  using Accepts = Messages<RunTask>;
  Task<int> on(RunTask run) {
    Task<int> task = run.body(run.argument);
    const int value = co_await task;
    co_return value;
  }
};

inline Result<int> run_in_actor(System& system, Task<int> (*body)(void*), void* argument = nullptr,
                                Placement placement = {}) {
  auto runner = system.spawn<Runner>({.placement = std::move(placement)});
  Result<int> result = runner.ask_blocking(RunTask{body, argument}, 30s);
  runner.stop();
  return result;
}

}  // namespace reprise::runtime
