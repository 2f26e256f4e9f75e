// The simulator itself: virtual time, replay of a seed, the order of messages, faults and stops.

#include "runtime/testing/simulator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

namespace reprise::runtime {
namespace {

using namespace std::chrono_literals;

FailureHooks silent() {
  return {.on_failure = [](ActorId, const char*, const std::string&) {},
          .on_escalation = [](ActorId, const char*, const std::string&) {}};
}

struct Rest {
  using Reply = int;
  Duration time;
};
class Sleeper : public Actor {
 public:
  using Accepts = Messages<Rest>;
  Task<int> on(Rest rest) {
    auto pause = sleep_for(rest.time);
    const Result<void> rested = co_await pause;
    co_return rested.ok() ? 1 : 0;
  }
};

TEST(Simulator, TimeJumpsToTheNextDeadline) {
  const auto begin = std::chrono::steady_clock::now();
  Simulator simulator;
  const TimePoint virtual_begin = Clock::now();
  auto sleeper = simulator.system().spawn<Sleeper>();
  EXPECT_EQ(*simulator.ask(sleeper, Rest{24h}, 48h), 1);
  EXPECT_GE(Clock::now() - virtual_begin, 24h);
  EXPECT_LT(Clock::now() - virtual_begin, 24h + 2ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1h);
}

TEST(Simulator, AnAskEndsAtItsVirtualDeadline) {
  Simulator simulator;
  auto sleeper = simulator.system().spawn<Sleeper>();
  const TimePoint begin = Clock::now();
  const Result<int> answer = simulator.ask(sleeper, Rest{2h}, 1h);
  EXPECT_EQ(answer.error().code, ErrorCode::kDeadline);
  EXPECT_EQ(Clock::now() - begin, 1h);
}

TEST(Simulator, EndsGiveTheClockBack) {
  { Simulator simulator; }
  EXPECT_EQ(Clock::virtual_time(), nullptr);
  const auto real = std::chrono::steady_clock::now();
  EXPECT_GE(Clock::now(), real);
}

TEST(Simulator, AnOwnThreadIsSimulated) {
  Simulator simulator;
  auto sleeper = simulator.system().spawn<Sleeper>({.placement = Placement::own_thread()});
  EXPECT_EQ(*simulator.ask(sleeper, Rest{1h}, 2h), 1);
  EXPECT_TRUE(simulator.system().stop().complete);
  EXPECT_TRUE(sleeper.stopped());
}

// -- order

struct Note {
  int sender;
  int number;
};
class Notes : public Actor {
 public:
  using Accepts = Messages<Note>;
  explicit Notes(std::vector<Note>& notes) : notes_(notes) {}
  void on(Note note) { notes_.push_back(note); }

 private:
  std::vector<Note>& notes_;
};
struct Begin {};
class Sender : public Actor {
 public:
  using Accepts = Messages<Begin>;
  Sender(int number, RefOf<Notes> to) : number_(number), to_(std::move(to)) {}
  void on(Begin) {
    for (int i = 0; i < 5; ++i) to_.tell(Note{number_, i});
  }

 private:
  const int number_;
  const RefOf<Notes> to_;
};

std::vector<Note> notes_of(std::uint64_t seed) {
  std::vector<Note> notes;
  Simulator simulator({.seed = seed, .faults = {.delayed_percent = 40, .max_delay = 10ms}});
  auto to = simulator.system().spawn<Notes>({}, notes);
  for (int i = 0; i < 3; ++i) simulator.system().spawn<Sender>({}, i, to).tell(Begin{});
  EXPECT_TRUE(simulator.run());
  return notes;
}

TEST(Simulator, KeepsTheOrderOfAPairOnly) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    std::vector<int> next(3, 0);
    std::string order;
    for (const Note& note : notes_of(seed)) {
      EXPECT_EQ(note.number, next[static_cast<std::size_t>(note.sender)]++) << "seed " << seed;
      order += static_cast<char>('a' + note.sender);
    }
    EXPECT_EQ(next, std::vector<int>({5, 5, 5})) << "seed " << seed;
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 50U) << "messages of different senders overtake each other";
}

// -- replay

struct Work {
  using Reply = int;
  int hops;
};
struct Introduce {
  std::vector<Ref<Work>> peers;
};

/// Sends, sleeps, asks with short deadlines, fails and stops by chance.
class Rambler : public Actor {
 public:
  using Accepts = Messages<Work, Introduce>;
  static constexpr std::uint32_t kConcurrentHandlers = 8;
  explicit Rambler(SimulatedChance& chance) : chance_(chance) {}

  void on(Introduce introduce) { peers_ = std::move(introduce.peers); }
  Task<Result<int>> on(Work work) {
    const Duration time = chance_.up_to(20ms);
    auto pause = sleep_for(time);
    const Result<void> rested = co_await pause;
    if (chance_.percent(2)) throw std::runtime_error("broken by chance");
    if (chance_.percent(1)) stop();
    if (work.hops == 0 || peers_.empty() || !rested.ok()) co_return 1;
    Ref<Work>& peer = peers_[chance_.below(peers_.size())];
    peer.tell(Work{work.hops / 2});
    auto asked = peer.ask(Work{work.hops - 1}, chance_.up_to(100ms));
    const Result<int> answer = co_await asked;
    co_return answer.ok() ? *answer + 1 : 0;
  }

 private:
  SimulatedChance& chance_;
  std::vector<Ref<Work>> peers_;
};

struct Journey {
  std::uint64_t hash = 0;
  std::uint64_t steps = 0;
  std::vector<std::string> log{};
};

Journey ramble(std::uint64_t seed) {
  Journey run;
  Simulator simulator(
      {.seed = seed,
       .faults = {.delayed_percent = 30, .max_delay = 30ms, .max_turn_time = 2ms, .stops_per_mille = 1},
       .hooks = silent(),
       .log = [&](const std::string& line) { run.log.push_back(line); }});
  std::vector<Ref<Work>> ramblers;
  for (int i = 0; i < 6; ++i) {
    const OnFailure on_failure =
        i % 2 == 0 ? OnFailure::restart(2, 1s, OnFailure::Do::kStop, 5ms) : OnFailure::stop();
    auto rambler =
        simulator.system().spawn<Rambler>({.on_failure = on_failure}, std::ref(simulator.chance()));
    simulator.may_stop(rambler);
    ramblers.push_back(rambler);
  }
  for (const Ref<Work>& rambler : ramblers) {
    Ref<Work, Introduce>(rambler.cell()).tell(Introduce{ramblers});
  }
  for (int i = 0; i < 20; ++i) {
    simulator.after(simulator.chance().up_to(200ms), [&ramblers, &simulator] {
      ramblers[simulator.chance().below(ramblers.size())].tell(Work{8});
    });
  }
  EXPECT_TRUE(simulator.run(1'000'000));
  EXPECT_TRUE(simulator.system().stop().complete) << "seed " << seed;
  run.hash = simulator.trace_hash();
  run.steps = simulator.steps();
  return run;
}

TEST(Simulator, OneSeedRunsTheSameTwice) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Journey first = ramble(seed);
    const Journey second = ramble(seed);
    EXPECT_GT(first.steps, 50U);
    EXPECT_EQ(first.hash, second.hash) << "seed " << seed;
    EXPECT_EQ(first.steps, second.steps) << "seed " << seed;
    EXPECT_EQ(first.log, second.log) << "seed " << seed;
    EXPECT_GE(first.log.size(), first.steps) << "each step has a line";
    hashes.insert(first.hash);
  }
  EXPECT_EQ(hashes.size(), 50U) << "each seed has an order of its own";
}

TEST(Simulator, StopEndsActorsThatNeverRest) {
  struct Again {};
  class Restless : public Actor {
   public:
    using Accepts = Messages<Again>;
    void on(Again again) { self(*this).tell(again); }
  };
  Simulator simulator;
  auto restless = simulator.system().spawn<Restless>();
  restless.tell(Again{});
  EXPECT_FALSE(simulator.run(1000));
  const StopReport report = simulator.system().stop(1s, 1s);
  EXPECT_FALSE(report.drained);
  EXPECT_TRUE(report.complete);
}

}  // namespace
}  // namespace reprise::runtime
