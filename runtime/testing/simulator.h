#pragma once
// Runs a whole actor system in one thread, with virtual time, in an order drawn from a seed: a test of actors that
// visits many interleavings, and repeats a failing one exactly.
//
//   for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
//     Simulator simulator({.seed = seed, .faults = {.delayed_percent = 30, .max_delay = 50ms}});
//     auto counter = simulator.system().spawn<Counter>();       // a production actor, unchanged
//     counter.tell(Add{2});
//     Result<int> total = simulator.ask(counter, Total{}, 1s);  // in virtual time
//   }
//
// Every actor of system(), also one placed on the pool or on a thread of its own, runs on the simulation. A step delivers
// one message or runs one turn; which one is drawn among all that are possible. So messages of different senders overtake
// each other, while messages of one sender to one receiver keep their order, as runtime/detail/mailbox.h promises. Time
// stays until nothing can run, then jumps to the next deadline. Clock::now() of this thread is the virtual time, so
// sleeps, asks, deadlines and restarts need no change.
//
// A run depends on the seed and the program alone, if its actors do not block, use no other threads and no other clock
// than runtime::Clock, and do not depend on addresses. trace_hash() tells two runs apart; SimulatorOptions::log names each
// step of a seed that failed. Actors of io_contexts and other systems are not simulated.
//
// Threading: one thread, outside of turns; no two simulators at once on it. The system's blocking calls (ask_blocking,
// StreamReader::next_blocking) would wait for ever: use ask() and run_until(). System::stop() runs the simulation.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/system.h"

namespace reprise::runtime {

/// Faults of a simulation, within what the runtime promises. Defaults: none; only the order is drawn.
struct SimulatedFaults {
  unsigned delayed_percent =
      0;  // messages that take up to `max_delay`; later ones of the same pair wait for them
  Duration max_delay{};
  Duration max_turn_time{};  // a turn takes up to this, so that others come late and deadlines pass meanwhile
  unsigned stops_per_mille = 0;  // steps before which an actor given to may_stop() is stopped
};

struct SimulatorOptions {
  std::uint64_t seed = 1;
  SimulatedFaults faults{};
  FailureHooks hooks{};                           // as SystemOptions::hooks
  std::function<void(const std::string&)> log{};  // called with a line for each step; null: none
};

/// Numbers drawn from a seed, the same on every machine (SplitMix64).
class SimulatedChance {
 public:
  explicit SimulatedChance(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next();
  /// Returns a number in [0, bound); 0 if `bound` is 0. Slightly uneven for very large bounds.
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  bool percent(unsigned chance) { return below(100) < chance; }
  /// Returns a time in [0, most].
  Duration up_to(Duration most) {
    return Duration(static_cast<Duration::rep>(below(static_cast<std::uint64_t>(most.count()) + 1)));
  }

 private:
  std::uint64_t state_;
};

class SimulatedExecutor;

class Simulator {
 public:
  explicit Simulator(SimulatorOptions options = {});
  /// Stops the system, which runs what is left.
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  System& system() { return *system_; }

  /// Begins at the same time in every simulation.
  TimePoint now() const { return *now_; }

  /// For the test's own choices; drawing from it does not change the order of steps.
  SimulatedChance& chance() { return chance_; }

  /// Calls `action` after this time, between two steps. It may spawn, tell and stop like a plain thread. Actions that
  /// are left when the system is stopped are dropped.
  void after(Duration delay, std::function<void()> action);

  /// Lets the fault stops_per_mille stop this actor.
  template <class... Ms>
  void may_stop(const Ref<Ms...>& ref) {
    add_victim(ref.cell());
  }

  /// Makes one step; if nothing can run, time jumps first. Returns false if nothing is left to happen.
  bool step();
  /// Steps until nothing is left to happen; returns false after `max_steps`.
  bool run(std::uint64_t max_steps = 10'000'000);
  /// Steps until this time has passed; more steps than `max_steps` fail a check.
  void run_for(Duration time, std::uint64_t max_steps = 10'000'000) {
    run_until([] { return false; }, time, max_steps);
  }
  /// Steps until `done` returns true or this time has passed; returns done().
  bool run_until(const std::function<bool()>& done, Duration limit, std::uint64_t max_steps = 10'000'000);

  /// As Ref::ask_blocking(), but runs the simulation.
  template <class... Ms, Question M>
  requires OneOf<M, Ms...> Result<typename M::Reply> ask(const Ref<Ms...>& ref, M message, Duration timeout);

  std::uint64_t steps() const;
  /// A number over all steps so far: who sent, what kind of node, who ran, and when.
  std::uint64_t trace_hash() const;

 private:
  /// The reply to ask(). Answered during a step, or after ask() has given up.
  template <class R>
  class Reply : public ReplySlot<R> {
   public:
    Reply() : ReplySlot<R>(nullptr) {}
    bool answered() const { return answered_; }
    Result<R> take() {
      Result<R> answer = answered_ ? this->take_value() : Result<R>(ErrorCode::kDeadline);
      this->abandon();
      this->release();
      return answer;
    }

   private:
    void deliver() override {
      answered_ = true;
      this->release();
    }
    bool answered_ = false;
  };

  void add_victim(const CellPtr& cell);

  const std::unique_ptr<TimePoint> now_;
  SimulatedChance chance_;
  ExecutorPtr executor_;
  SimulatedExecutor* steps_ = nullptr;  // what executor_ refers to
  std::unique_ptr<System> system_;
};

template <class... Ms, Question M>
requires OneOf<M, Ms...> Result<typename M::Reply> Simulator::ask(const Ref<Ms...>& ref, M message,
                                                                  Duration timeout) {
  auto* slot = new Reply<typename M::Reply>();
  ref_detail::ask<M>(*ref.cell(), std::move(message), ReplyTo<typename M::Reply>(slot),
                     deadline_after(timeout));
  run_until([slot] { return slot->answered(); }, timeout);
  return slot->take();
}

}  // namespace reprise::runtime
