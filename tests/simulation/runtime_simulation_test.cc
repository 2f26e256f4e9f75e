// The runtime's promises (docs/runtime.md) in a thousand orders each: asks end, streams keep their values, supervision sees
// every failure, timers fire when they are due, messages run once. A failure names its seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/event.h"
#include "runtime/stream.h"
#include "runtime/testing/simulator.h"

namespace reprise::runtime {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSeeds = 1000;
constexpr Duration kTick = 1ms;  // the timers' resolution

FailureHooks no_hooks() {
  return {.on_failure = [](ActorId, const char*, const std::string&) {},
          .on_escalation = [](ActorId, const char*, const std::string&) {}};
}

/// Mild in some seeds, rough in others.
SimulatorOptions options_of(std::uint64_t seed) {
  SimulatorOptions options{.seed = seed, .hooks = no_hooks()};
  if (seed % 2 == 0) options.faults = {.delayed_percent = 30, .max_delay = 20ms};
  if (seed % 4 == 0) options.faults.max_turn_time = 3ms;
  return options;
}

/// Stops the loop over seeds at the first that failed.
bool failed() {
  return testing::Test::HasFailure();
}

// -- asks

struct Question1 {
  using Reply = int;
  int number;
};
struct AskMany {
  std::vector<Ref<Question1>> answerers;
};

struct AskBook {
  int begun = 0;
  int ended = 0;
  bool exact = true;  // turns take no time
  std::map<int, int> handled{};
  std::map<ErrorCode, int> errors{};
  int answers = 0;
};

/// Answers, forgets, fails or stops by chance.
template <std::uint32_t kHandlers, Overload kOverload>
class Answerer : public Actor {
 public:
  using Accepts = Messages<Question1>;
  static constexpr std::uint32_t kConcurrentHandlers = kHandlers;
  static constexpr MailboxSpec kMailbox{.capacity = 3, .overload = kOverload};
  Answerer(SimulatedChance& chance, AskBook& book) : chance_(chance), book_(book) {}

  Task<void> on(Question1 question, ReplyTo<int> reply) {
    ++book_.handled[question.number];
    const std::uint64_t manner = chance_.below(40);
    if (manner == 0) throw std::runtime_error("broken");
    if (manner == 1) stop();
    if (manner < 5) co_return;  // without an answer
    if (manner < 15) {
      kept_.push_back(std::move(reply));  // answered with a later question, or never
      co_return;
    }
    for (ReplyTo<int>& kept : kept_) kept.answer(question.number);
    kept_.clear();
    if (manner < 30) {
      auto pause = sleep_for(chance_.up_to(30ms));
      const Result<void> rested = co_await pause;
      if (!rested.ok()) co_return;
    }
    reply.answer(question.number);
  }

 private:
  SimulatedChance& chance_;
  AskBook& book_;
  std::vector<ReplyTo<int>> kept_;
};

class Asker : public Actor {
 public:
  using Accepts = Messages<AskMany>;
  Asker(SimulatedChance& chance, AskBook& book) : chance_(chance), book_(book) {}

  Task<void> on(AskMany many) {
    for (int i = 0; i < 8; ++i) {
      const Ref<Question1> answerer = many.answerers[chance_.below(many.answerers.size())];
      const Duration timeout = chance_.up_to(60ms);
      const TimePoint deadline = Clock::now() + timeout;
      CancelSource source;
      const bool cancels = chance_.percent(20);
      auto asked = answerer.ask(Question1{book_.begun}, deadline, source.token());
      ++book_.begun;
      if (cancels) launch(cancel(source, chance_.up_to(20ms)));
      if (chance_.percent(30)) {
        auto pause = sleep_for(chance_.up_to(10ms));  // the answer may come before it is awaited
        const Result<void> rested = co_await pause;
      }
      const TimePoint awaited = Clock::now();
      const Result<int> answer = co_await asked;
      ++book_.ended;
      const bool punctual = Clock::now() <= std::max(deadline, awaited) + 2 * kTick;
      EXPECT_TRUE(!book_.exact || punctual) << "an ask outlives its deadline";
      if (answer.ok()) {
        ++book_.answers;
      } else {
        ++book_.errors[answer.error().code];
      }
    }
  }

 private:
  static Task<void> cancel(CancelSource source, Duration after) {
    auto pause = sleep_for(after);
    const Result<void> rested = co_await pause;
    if (rested.ok()) source.cancel();
  }

  SimulatedChance& chance_;
  AskBook& book_;
};

TEST(RuntimeSimulation, AsksAlwaysEnd) {
  std::set<ErrorCode> seen;
  for (std::uint64_t seed = 1; seed <= kSeeds && !failed(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulatorOptions options = options_of(seed);
    options.faults.stops_per_mille = 2;
    AskBook book{.exact = options.faults.max_turn_time == Duration{}};
    Simulator simulator(std::move(options));
    System& system = simulator.system();
    auto chance = std::ref(simulator.chance());
    const OnFailure again = OnFailure::restart(2, 1h, OnFailure::Do::kStop, 2ms);
    std::vector<Ref<Question1>> answerers{
        system.spawn<Answerer<1, Overload::kReject>>({.on_failure = again}, chance, std::ref(book)),
        system.spawn<Answerer<4, Overload::kSuspend>>({}, chance, std::ref(book)),
        system.spawn<Answerer<1, Overload::kSuspend>>({.on_failure = again}, chance, std::ref(book)),
        system.spawn<Answerer<2, Overload::kDropOldest>>({}, chance, std::ref(book))};
    for (const Ref<Question1>& answerer : answerers) simulator.may_stop(answerer);
    for (int i = 0; i < 5; ++i) system.spawn<Asker>({}, chance, std::ref(book)).tell(AskMany{answerers});
    EXPECT_TRUE(simulator.run());
    EXPECT_EQ(book.begun, 40);
    EXPECT_EQ(book.ended, 40);
    for (const auto& [number, times] : book.handled) EXPECT_EQ(times, 1) << "question " << number;
    for (const auto& [code, times] : book.errors) seen.insert(code);
    EXPECT_TRUE(system.stop().complete);
  }
  for (const ErrorCode code : {ErrorCode::kStopped, ErrorCode::kMailboxFull, ErrorCode::kDropped,
                               ErrorCode::kDeadline, ErrorCode::kCanceled, ErrorCode::kNoReply}) {
    EXPECT_TRUE(seen.contains(code)) << to_string(code) << " was not tried";
  }
}

// -- streams

struct StreamBook {
  std::vector<int> written{};
  std::vector<int> read{};
  std::optional<ErrorCode> read_end{};
  bool writer_done = false;
};

struct Write {
  StreamWriter<int> to;
};
class Writer : public Actor {
 public:
  using Accepts = Messages<Write>;
  Writer(SimulatedChance& chance, StreamBook& book) : chance_(chance), book_(book) {}
  Task<void> on(Write write) {
    StreamWriter<int> to = std::move(write.to);
    for (int i = 0; i < 40; ++i) {
      const bool hurries = chance_.percent(20);
      const TimePoint deadline = hurries ? Clock::now() + chance_.up_to(5ms) : TimePoint::max();
      auto writing = to.write(i, deadline);
      const Result<void> written = co_await writing;
      if (written.ok()) {
        book_.written.push_back(i);
      } else if (written.error().code != ErrorCode::kDeadline) {
        break;
      }
      if (chance_.percent(10)) {
        auto pause = sleep_for(chance_.up_to(10ms));
        const Result<void> rested = co_await pause;
      }
    }
    book_.writer_done = true;
    to.close();
  }

 private:
  SimulatedChance& chance_;
  StreamBook& book_;
};

struct Read {
  StreamReader<int> from;
  bool grants;
};
class Reader : public Actor {
 public:
  using Accepts = Messages<Read>;
  Reader(SimulatedChance& chance, StreamBook& book) : chance_(chance), book_(book) {}
  Task<void> on(Read read) {
    StreamReader<int> from = std::move(read.from);
    while (true) {
      const TimePoint deadline = chance_.percent(30) ? Clock::now() + chance_.up_to(5ms) : TimePoint::max();
      auto reading = from.next(deadline);
      const Result<int> value = co_await reading;
      if (value.ok()) {
        book_.read.push_back(*value);
        if (read.grants) from.grant(1);
      } else if (value.error().code != ErrorCode::kDeadline) {
        book_.read_end = value.error().code;
        co_return;
      }
      if (chance_.percent(10)) {
        auto pause = sleep_for(chance_.up_to(10ms));
        const Result<void> rested = co_await pause;
      }
    }
  }

 private:
  SimulatedChance& chance_;
  StreamBook& book_;
};

TEST(RuntimeSimulation, StreamsNeitherLoseNorRepeat) {
  int whole = 0;
  int cut = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds && !failed(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulatorOptions options = options_of(seed);
    options.faults.stops_per_mille = seed % 3 == 0 ? 4 : 0;
    const bool may_be_cut = options.faults.stops_per_mille != 0;
    StreamBook book;
    Simulator simulator(std::move(options));
    auto chance = std::ref(simulator.chance());
    auto writer = simulator.system().spawn<Writer>({}, chance, std::ref(book));
    auto reader = simulator.system().spawn<Reader>({}, chance, std::ref(book));
    simulator.may_stop(writer);
    simulator.may_stop(reader);
    const auto window = static_cast<std::uint32_t>(1 + simulator.chance().below(4));
    const bool grants = simulator.chance().percent(30);
    Stream<int> stream = make_stream<int>(window, grants ? Credit::kManual : Credit::kByTaking);
    if (grants) stream.reader.grant(window);
    writer.tell(Write{std::move(stream.writer)});
    reader.tell(Read{std::move(stream.reader), grants});
    EXPECT_TRUE(simulator.run());
    ASSERT_LE(book.read.size(), book.written.size());
    EXPECT_TRUE(std::equal(book.read.begin(), book.read.end(), book.written.begin())) << "another order";
    if (reader.stopped()) {
      EXPECT_TRUE(writer.stopped() || book.writer_done) << "the writer waits for a reader that is gone";
      ++cut;
    } else {
      ASSERT_TRUE(book.read_end.has_value()) << "the reader waits for a writer that is gone";
      EXPECT_EQ(book.read, book.written);
      EXPECT_TRUE(may_be_cut || book.read_end == ErrorCode::kEnded);
      ++(book.read_end == ErrorCode::kEnded ? whole : cut);
    }
  }
  EXPECT_GT(whole, 100);
  EXPECT_GT(cut, 100);
}

// -- supervision

struct Throw {};
struct Member {
  std::string kind;
  bool threw = false;
  int throws = 0;
  int made = 0;
  std::vector<StopReason> downs{};
};
using Members = std::map<ActorId, Member>;
constexpr std::uint32_t kRestarts = 2;

class Throwing : public Actor {
 public:
  using Accepts = Messages<Throw>;
  Throwing(Members* members, std::string kind) : members_(*members), kind_(std::move(kind)) {}
  void on_start() {
    Member& member = members_[id()];
    member.kind = kind_;
    ++member.made;
    if (kind_ != "child") make_children();
  }
  void on(Throw) {
    Member& member = members_[id()];
    member.threw = true;
    ++member.throws;
    throw std::runtime_error("broken");
  }

 private:
  void make_children();

  Members& members_;
  const std::string kind_;
};

struct Meet {
  std::vector<RefOf<Throwing>> actors;
};
/// Watches all others, and counts how each ended.
class Registrar : public Actor {
 public:
  using Accepts = Messages<Meet, Down>;
  explicit Registrar(Members& members) : members_(members) {}
  void on(Meet meet) {
    for (const RefOf<Throwing>& actor : meet.actors) watch(*this, actor);
  }
  void on(Down down) { members_[down.who].downs.push_back(down.reason); }

 private:
  Members& members_;
};

std::vector<RefOf<Throwing>>* children_made = nullptr;  // by the simulation of this moment

void Throwing::make_children() {
  for (int i = 0; i < 2; ++i) {
    const OnFailure on_failure = i == 0 ? OnFailure::stop() : OnFailure::escalate();
    children_made->push_back(
        spawn<Throwing>({.name = "child", .on_failure = on_failure}, &members_, "child"));
  }
}

void check_member(const Member& member) {
  SCOPED_TRACE(member.kind);
  ASSERT_EQ(member.downs.size(), 1U) << "one Down for each watch";
  const StopReason reason = member.downs.front();
  if (member.kind == "parent that restarts") {
    // Escalations of children count as failures, too, so that it may end before it threw so often.
    EXPECT_TRUE(member.throws <= static_cast<int>(kRestarts) || reason == StopReason::kOutOfRestarts);
    EXPECT_LE(member.made, static_cast<int>(kRestarts) + 1);
  } else if (member.threw) {
    EXPECT_EQ(reason, StopReason::kFailed) << "a failure is reported as something else";
  } else if (member.kind == "child") {
    EXPECT_EQ(reason, StopReason::kStopped);
  }
}

TEST(RuntimeSimulation, SupervisionSeesEveryFailure) {
  std::set<StopReason> seen;
  for (std::uint64_t seed = 1; seed <= kSeeds && !failed(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Members members;
    std::vector<RefOf<Throwing>> actors;
    int escalations = 0;
    SimulatorOptions options = options_of(seed);
    options.hooks.on_escalation = [&](ActorId, const char*, const std::string&) { ++escalations; };
    Simulator simulator(std::move(options));
    System& system = simulator.system();
    children_made = &actors;
    actors.push_back(system.spawn<Throwing>({}, &members, "parent"));
    actors.push_back(system.spawn<Throwing>(
        {.on_failure = OnFailure::restart(kRestarts, 1h, OnFailure::Do::kEscalate, 3ms)}, &members,
        "parent that restarts"));
    actors.push_back(system.spawn<Throwing>({.on_failure = OnFailure::escalate()}, &members, "parent"));
    auto registrar = system.spawn<Registrar>({}, members);
    EXPECT_TRUE(simulator.run());
    for (int i = 0; i < 12; ++i) {
      simulator.after(simulator.chance().up_to(20ms), [&] {
        const RefOf<Throwing>& actor = actors[simulator.chance().below(actors.size())];
        if (simulator.chance().percent(40)) {
          actor.stop();
        } else {
          actor.tell(Throw{});
        }
      });
    }
    EXPECT_TRUE(simulator.run());
    registrar.tell(Meet{actors});
    EXPECT_TRUE(simulator.run());
    for (const RefOf<Throwing>& actor : actors) actor.stop();  // those that are left
    EXPECT_TRUE(simulator.run());
    int escalated = 0;
    for (const RefOf<Throwing>& actor : actors) {
      EXPECT_TRUE(actor.stopped());
      const Member& member = members[actor.id()];
      check_member(member);
      if (member.downs.empty()) continue;
      const StopReason reason = member.downs.front();
      seen.insert(reason);
      const bool is_root = actor.cell()->parent() == nullptr;
      if (is_root && actor.id() == actors[2].id() && reason == StopReason::kFailed) ++escalated;
      if (is_root && reason == StopReason::kOutOfRestarts) ++escalated;
    }
    EXPECT_EQ(escalations, escalated) << "an escalation got lost";
    EXPECT_TRUE(system.stop().complete);
  }
  EXPECT_EQ(seen.size(), 3U) << "stopped, failed and out of restarts were tried";
}

// -- timers

struct Fired {
  TimePoint deadline;
  TimePoint at;
};
struct Waits {
  Duration time;
  bool cancelled;
};
class Waiter : public Actor {
 public:
  using Accepts = Messages<Waits>;
  static constexpr std::uint32_t kConcurrentHandlers = 100;
  explicit Waiter(std::vector<Fired>& fired) : fired_(fired) {}
  Task<void> on(Waits waits) {
    const TimePoint deadline = Clock::now() + waits.time;
    CancelSource source;
    auto pause = sleep_until(deadline, source.token());
    if (waits.cancelled) source_ = source;
    if (!waits.cancelled && source_) std::exchange(source_, std::nullopt)->cancel();
    const Result<void> rested = co_await pause;
    if (rested.ok()) fired_.push_back({deadline, Clock::now()});
  }

 private:
  std::vector<Fired>& fired_;
  std::optional<CancelSource> source_;
};

TEST(RuntimeSimulation, TimersFireInOrderOfDeadline) {
  for (std::uint64_t seed = 1; seed <= kSeeds && !failed(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<Fired> fired;
    Simulator simulator({.seed = seed});
    SimulatedChance& chance = simulator.chance();
    std::vector<RefOf<Waiter>> waiters;
    for (int i = 0; i < 3; ++i) waiters.push_back(simulator.system().spawn<Waiter>({}, fired));
    int to_fire = 0;
    for (int i = 0; i < 40; ++i) {
      const bool cancelled = chance.percent(10);
      const Duration most = std::vector<Duration>{3ms, 70ms, 5s, 1h, 24h * 30}[chance.below(5)];
      const Waits waits{chance.up_to(most), cancelled};
      if (!cancelled) ++to_fire;
      simulator.after(chance.up_to(10s),
                      [&waiters, &chance, waits] { waiters[chance.below(waiters.size())].tell(waits); });
    }
    EXPECT_TRUE(simulator.run());
    EXPECT_GE(static_cast<int>(fired.size()), to_fire) << "a timer was lost";
    TimePoint before{};
    for (const Fired& timer : fired) {
      EXPECT_GE(timer.at, timer.deadline) << "it fired early";
      EXPECT_LE(timer.at, timer.deadline + kTick) << "it fired late";
      EXPECT_GE(timer.deadline + kTick, before) << "one with a later deadline fired first";
      before = std::max(before, timer.deadline);
    }
  }
}

// -- messages

struct Numbered {
  int sender;
  int number;
};
struct MailBook {
  std::map<int, std::vector<int>> accepted{};
  std::map<int, std::vector<int>> handled{};
};

template <Overload kOverload>
class Receiver : public Actor {
 public:
  using Accepts = Messages<Numbered>;
  static constexpr MailboxSpec kMailbox{.capacity = 4, .overload = kOverload};
  Receiver(SimulatedChance& chance, MailBook& book) : chance_(chance), book_(book) {}
  Task<void> on(Numbered numbered) {
    book_.handled[numbered.sender].push_back(numbered.number);
    if (chance_.percent(20)) {
      auto pause = sleep_for(chance_.up_to(3ms));
      const Result<void> rested = co_await pause;
    }
  }

 private:
  SimulatedChance& chance_;
  MailBook& book_;
};

struct SendAll {
  Ref<Numbered> to;
};
class Producer : public Actor {
 public:
  using Accepts = Messages<SendAll>;
  Producer(SimulatedChance& chance, MailBook& book, int number)
      : chance_(chance), book_(book), number_(number) {}
  Task<void> on(SendAll all) {
    for (int i = 0; i < 15; ++i) {
      bool accepted = false;
      if (chance_.percent(50)) {
        accepted = all.to.tell(Numbered{number_, i}) == SendStatus::kSent;
      } else {
        auto sending = all.to.send(Numbered{number_, i});
        const Result<void> sent = co_await sending;
        accepted = sent.ok();
      }
      if (accepted) book_.accepted[number_].push_back(i);
      if (chance_.percent(30)) {
        auto pause = sleep_for(chance_.up_to(3ms));
        const Result<void> rested = co_await pause;
      }
    }
  }

 private:
  SimulatedChance& chance_;
  MailBook& book_;
  const int number_;
};

template <Overload kOverload>
void send_in_every_order() {
  std::uint64_t dropped = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds && !failed(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    MailBook book;
    Simulator simulator(options_of(seed));
    auto chance = std::ref(simulator.chance());
    auto receiver = simulator.system().spawn<Receiver<kOverload>>({}, chance, std::ref(book));
    for (int i = 0; i < 3; ++i) {
      simulator.system().spawn<Producer>({}, chance, std::ref(book), i).tell(SendAll{receiver});
    }
    EXPECT_TRUE(simulator.run());
    std::size_t lost = 0;
    for (auto& [sender, accepted] : book.accepted) {
      const std::vector<int>& handled = book.handled[sender];
      EXPECT_TRUE(std::is_sorted(handled.begin(), handled.end())) << "another order than sent";
      EXPECT_EQ(std::set<int>(handled.begin(), handled.end()).size(), handled.size())
          << "one was handled twice";
      EXPECT_TRUE(std::includes(accepted.begin(), accepted.end(), handled.begin(), handled.end()));
      lost += accepted.size() - std::min(accepted.size(), handled.size());
    }
    EXPECT_EQ(lost, simulator.system().dead_letters()) << "a message was lost and not counted";
    EXPECT_TRUE(kOverload == Overload::kDropOldest || lost == 0);
    EXPECT_EQ(receiver.cell()->mailbox().depth(), 0U);
    dropped += lost;
  }
  EXPECT_EQ(dropped != 0, kOverload == Overload::kDropOldest);
}

TEST(RuntimeSimulation, RejectingMailboxLosesNothing) {
  send_in_every_order<Overload::kReject>();
}
TEST(RuntimeSimulation, SuspendingMailboxLosesNothing) {
  send_in_every_order<Overload::kSuspend>();
}
TEST(RuntimeSimulation, DroppingMailboxCountsWhatItDrops) {
  send_in_every_order<Overload::kDropOldest>();
}

}  // namespace
}  // namespace reprise::runtime
