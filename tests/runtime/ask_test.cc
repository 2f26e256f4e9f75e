// Asks: all ways in which an ask can end.

#include "runtime/ask.h"

#include "tests/runtime/probe.h"

namespace reprise::runtime {
namespace {

struct Echo {
  using Reply = int;
  int value;
};
struct Never {
  using Reply = int;
};
struct Forget {
  using Reply = int;
};
struct Throw {
  using Reply = int;
};
struct ThrowLater {
  using Reply = int;
};
struct Block {
  int ms;
};
struct Handled {
  using Reply = int;
};

class Oracle : public Actor {
 public:
  using Accepts = Messages<Echo, Never, Forget, Throw, ThrowLater, Block, Handled>;
  int on(Echo echo) {
    ++handled_;
    return echo.value;
  }
  void on(Never, ReplyTo<int> reply) { kept_.push_back(std::move(reply)); }
  void on(Forget, ReplyTo<int>) {}
  int on(Throw) { throw std::runtime_error("no oracle today"); }
  Task<int> on(ThrowLater) {
    auto pause = sleep_for(1ms);
    const Result<void> rested = co_await pause;
    if (rested.ok()) throw std::runtime_error("no oracle tomorrow");
    co_return 0;
  }
  void on(Block block) { std::this_thread::sleep_for(std::chrono::milliseconds(block.ms)); }
  int on(Handled) { return handled_; }

 private:
  std::vector<ReplyTo<int>> kept_;
  int handled_ = 0;
};

using OracleRef = RefOf<Oracle>;

Task<int> ask_in_turn(void* argument) {
  const OracleRef oracle = *static_cast<OracleRef*>(argument);
  int sum = 0;
  for (int i = 0; i < 1000; ++i) {
    auto asked = oracle.ask(Echo{i}, 5s);
    const Result<int> answer = co_await asked;
    sum += answer ? *answer : -1'000'000;
  }
  co_return sum;
}

TEST(Ask, AnswersComeBackInTheAskersTurns) {
  System system({.workers = 2});
  OracleRef oracle = system.spawn<Oracle>();
  EXPECT_EQ(*run_in_actor(system, ask_in_turn, &oracle), 499'500);
  EXPECT_EQ(*run_in_actor(system, ask_in_turn, &oracle, Placement::own_thread()), 499'500);
}

Task<int> ask_all_at_once(void* argument) {
  const OracleRef oracle = *static_cast<OracleRef*>(argument);
  auto a = oracle.ask(Echo{1}, 5s);
  auto b = oracle.ask(Echo{20}, 5s);
  auto c = oracle.ask(Echo{300}, 5s);
  const Result<int> third = co_await c;
  const Result<int> first = co_await a;
  const Result<int> second = co_await b;
  co_return *first + *second + *third;
}

TEST(Ask, SeveralCanBeUnderWayAndAwaitedInAnyOrder) {
  System system({.workers = 2});
  OracleRef oracle = system.spawn<Oracle>();
  EXPECT_EQ(*run_in_actor(system, ask_all_at_once, &oracle), 321);
}

/// Returns the error code of an ask, or -1.
template <class M>
Task<int> code_of(OracleRef oracle, M message, Duration timeout) {
  auto asked = oracle.ask(std::move(message), timeout);
  const Result<int> answer = co_await asked;
  co_return answer.ok() ? -1 : static_cast<int>(answer.error().code);
}

Task<int> deadline_passes(void* argument) {
  Task<int> code = code_of(*static_cast<OracleRef*>(argument), Never{}, 10ms);
  const int result = co_await code;
  co_return result;
}

TEST(Ask, TheDeadlineEndsIt) {
  System system({.workers = 1});
  OracleRef oracle = system.spawn<Oracle>();
  EXPECT_EQ(*run_in_actor(system, deadline_passes, &oracle), static_cast<int>(ErrorCode::kDeadline));
}

Task<int> past_deadline(void* argument) {
  const OracleRef oracle = *static_cast<OracleRef*>(argument);
  auto asked = oracle.ask(Echo{1}, Clock::now() - 1s);
  const Result<int> answer = co_await asked;
  auto handled = oracle.ask(Handled{}, 5s);
  const Result<int> count = co_await handled;
  co_return answer.ok() ? -1 : static_cast<int>(answer.error().code) * 10 + *count;
}

TEST(Ask, ADeadlineInThePastSendsNothing) {
  System system({.workers = 1});
  OracleRef oracle = system.spawn<Oracle>();
  EXPECT_EQ(*run_in_actor(system, past_deadline, &oracle), static_cast<int>(ErrorCode::kDeadline) * 10);
  EXPECT_EQ(oracle.ask_blocking(Echo{1}, 0s).error().code, ErrorCode::kDeadline);
}

TEST(Ask, WorkThatIsLateIsNotBegun) {
  System system({.workers = 1});
  OracleRef oracle = system.spawn<Oracle>();
  oracle.tell(Block{60});
  EXPECT_EQ(oracle.ask_blocking(Echo{1}, 5ms).error().code, ErrorCode::kDeadline);
  EXPECT_EQ(*oracle.ask_blocking(Handled{}, 5s), 0);
}

Task<int> forgotten(void* argument) {
  Task<int> code = code_of(*static_cast<OracleRef*>(argument), Forget{}, 5s);
  const int result = co_await code;
  co_return result;
}

TEST(Ask, AReplyLetGoIsAnError) {
  System system({.workers = 1});
  OracleRef oracle = system.spawn<Oracle>();
  EXPECT_EQ(*run_in_actor(system, forgotten, &oracle), static_cast<int>(ErrorCode::kNoReply));
}

TEST(Ask, AHandlerThatThrowsSaysWhy) {
  System system({.workers = 1, .hooks = quiet()});
  OracleRef oracle = system.spawn<Oracle>();
  EXPECT_EQ(oracle.ask_blocking(Throw{}, 5s).error().describe(), "handler threw: no oracle today");
  EXPECT_TRUE(eventually([&] { return oracle.stopped(); }));
  oracle = system.spawn<Oracle>();
  EXPECT_EQ(oracle.ask_blocking(ThrowLater{}, 5s).error().describe(), "handler threw: no oracle tomorrow");
  EXPECT_TRUE(eventually([&] { return oracle.stopped(); }));
  EXPECT_EQ(oracle.ask_blocking(Echo{1}, 5s).error().code, ErrorCode::kStopped);
}

TEST(Ask, AnActorThatStopsBouncesWhatWaits) {
  System system({.workers = 1});
  OracleRef oracle = system.spawn<Oracle>();
  oracle.tell(Block{30});
  std::thread stopper([&] {
    std::this_thread::sleep_for(5ms);
    oracle.stop();
  });
  EXPECT_EQ(oracle.ask_blocking(Never{}, 5s).error().code, ErrorCode::kStopped);
  stopper.join();
}

// -- cancellation

struct Begin {
  using Reply = int;
};
struct CancelIt {};
class Impatient : public Actor {
 public:
  using Accepts = Messages<Begin, CancelIt>;
  static constexpr std::uint32_t kConcurrentHandlers = 8;
  explicit Impatient(OracleRef oracle) : oracle_(std::move(oracle)) {}
  Task<int> on(Begin) {
    auto asked = oracle_.ask(Never{}, 1h, source_.token());
    const Result<int> answer = co_await asked;
    const bool canceled = !answer.ok() && answer.error().code == ErrorCode::kCanceled;
    auto again = oracle_.ask(Never{}, 1h, source_.token());
    const Result<int> second = co_await again;  // completes at once
    co_return canceled && !second.ok() && second.error().code == ErrorCode::kCanceled ? 1 : 0;
  }
  void on(CancelIt) { source_.cancel(); }

 private:
  OracleRef oracle_;
  CancelSource source_;
};

TEST(Ask, ACancelTokenEndsItAndLaterOnesAtOnce) {
  System system({.workers = 2});
  auto impatient = system.spawn<Impatient>({}, system.spawn<Oracle>());
  std::thread canceler([&] {
    std::this_thread::sleep_for(10ms);
    impatient.tell(CancelIt{});
  });
  EXPECT_EQ(*impatient.ask_blocking(Begin{}, 5s), 1);
  canceler.join();
}

// -- races of answers, deadlines and deaths

struct Storm {
  using Reply = int;
  int count;
};
class Stormy : public Actor {
 public:
  using Accepts = Messages<Storm>;
  explicit Stormy(OracleRef oracle) : oracle_(std::move(oracle)) {}
  Task<int> on(Storm storm) {
    int ended = 0;
    for (int i = 0; i < storm.count; ++i) {
      auto asked = oracle_.ask(Echo{i}, std::chrono::microseconds(200 + i % 1500));
      auto abandoned = oracle_.ask(Echo{i}, 1h);
      const Result<int> answer = co_await asked;
      ended += answer.ok() || answer.error().code == ErrorCode::kDeadline ||
                       answer.error().code == ErrorCode::kStopped
                   ? 1
                   : 0;
    }
    co_return ended;
  }

 private:
  OracleRef oracle_;
};

TEST(Ask, EndsExactlyOnceWhateverCrosses) {
  System system({.workers = 2});
  OracleRef oracle = system.spawn<Oracle>({.placement = Placement::own_thread()});
  std::vector<RefOf<Stormy>> storms;
  for (int i = 0; i < 4; ++i) storms.push_back(system.spawn<Stormy>({}, oracle));
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (const auto& storm : storms) {
    threads.emplace_back([&ended, storm] { ended += *storm.ask_blocking(Storm{500}, 60s); });
  }
  std::this_thread::sleep_for(30ms);
  oracle.stop();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, 2000);
}

}  // namespace
}  // namespace reprise::runtime
