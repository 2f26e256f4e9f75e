// Actors: typed messages, turns, all forms of handlers, start and stop.

#include <unordered_map>

#include "tests/runtime/probe.h"

namespace reprise::runtime {
namespace {

struct Add {
  int amount;
};
struct Total {
  using Reply = int;
};
struct Unrelated {};

class Counter : public Actor {
 public:
  using Accepts = Messages<Add, Total>;
  void on(const Add& add) { sum_ += add.amount; }
  int on(Total) { return sum_; }

 private:
  int sum_ = 0;
};

// -- sending a message that an actor does not accept does not compile
template <class R, class M>
concept Tells = requires(R ref, M message) {
  ref.tell(message);
};
template <class R, class M>
concept Asks = requires(R ref, M message) {
  ref.ask(message, 1s);
};
static_assert(Tells<RefOf<Counter>, Add>);
static_assert(!Tells<RefOf<Counter>, Unrelated>);
static_assert(Asks<RefOf<Counter>, Total>);
static_assert(!Asks<RefOf<Counter>, Add>, "Add names no Reply");
static_assert(std::is_convertible_v<Ref<Add, Total>, Ref<Add>>);
static_assert(!std::is_convertible_v<Ref<Add>, Ref<Add, Total>>);

TEST(Actor, TakesMessagesAndQuestions) {
  System system({.workers = 2});
  auto counter = system.spawn<Counter>();
  const Ref<Add> only_adds = counter;
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(only_adds.tell(Add{i}), SendStatus::kSent);
  EXPECT_EQ(*counter.ask_blocking(Total{}, 5s), 5050);
}

// -- forms of handlers

struct Plain {
  using Reply = int;
};
struct Later {
  using Reply = int;
};
struct LaterTask {
  using Reply = int;
};
struct Coroutine {
  using Reply = int;
};
struct Done {
  using Reply = void;
};
struct DoneTask {
  using Reply = void;
};
struct Refuse {
  using Reply = int;
};
struct Big {
  using Reply = std::size_t;
  std::vector<int> values;
  std::unique_ptr<int> unique;
};

class Shapes : public Actor {
 public:
  using Accepts = Messages<Plain, Later, LaterTask, Coroutine, Done, DoneTask, Refuse, Big>;
  int on(Plain&&) { return 1; }
  void on(Later, ReplyTo<int> reply) { kept_ = std::move(reply); }
  Task<void> on(LaterTask, ReplyTo<int> reply) {
    auto pause = sleep_for(1ms);
    const Result<void> rested = co_await pause;
    reply.answer(rested.ok() ? 3 : 0);
  }
  Task<int> on(const Coroutine&) {
    auto pause = sleep_for(1ms);
    const Result<void> rested = co_await pause;
    co_return rested.ok() ? 4 : 0;
  }
  void on(Done) { kept_.answer(2); }
  Task<void> on(DoneTask) {
    auto pause = sleep_for(1ms);
    const Result<void> rested = co_await pause;
    static_cast<void>(rested);
  }
  Result<int> on(Refuse) { return Error{ErrorCode::kIo, "not today"}; }
  Task<std::size_t> on(const Big& big) {  // uses the message across a suspension
    auto pause = sleep_for(1ms);
    const Result<void> rested = co_await pause;
    co_return rested.ok() ? big.values.size() + static_cast<std::size_t>(*big.unique) : 0;
  }

 private:
  ReplyTo<int> kept_;
};

TEST(Actor, HandlersOfEveryShapeAnswer) {
  System system({.workers = 1});
  auto shapes = system.spawn<Shapes>();
  EXPECT_EQ(*shapes.ask_blocking(Plain{}, 5s), 1);
  EXPECT_EQ(*shapes.ask_blocking(LaterTask{}, 5s), 3);
  EXPECT_EQ(*shapes.ask_blocking(Coroutine{}, 5s), 4);
  EXPECT_TRUE(shapes.ask_blocking(DoneTask{}, 5s).ok());
  EXPECT_EQ(shapes.ask_blocking(Refuse{}, 5s).error().describe(), "input/output error: not today");
  EXPECT_EQ(*shapes.ask_blocking(Big{std::vector<int>(1000), std::make_unique<int>(7)}, 5s), 1007U);

  std::atomic<int> later{0};
  std::thread waiting([&] { later = *shapes.ask_blocking(Later{}, 5s); });
  EXPECT_TRUE(eventually([&] { return shapes.ask_blocking(Done{}, 5s).ok() && later == 2; }));
  waiting.join();
}

// -- one turn at a time; serial and re-entrant

struct Enter {
  using Reply = int;
  int number;
};

template <std::uint32_t kAtOnce>
class Room : public Actor {
 public:
  using Accepts = Messages<Enter>;
  static constexpr std::uint32_t kConcurrentHandlers = kAtOnce;
  Task<int> on(Enter enter) {
    inside_ = inside_ + 1;
    most_ = std::max(most_, inside_);
    order_.push_back(enter.number);
    auto pause = sleep_for(2ms);
    const Result<void> rested = co_await pause;
    inside_ -= rested.ok() ? 1 : 0;
    co_return most_;
  }

 private:
  int inside_ = 0;
  int most_ = 0;
  std::vector<int> order_;
};

struct Visit {
  using Reply = int;
};
template <class R>
class Visitors : public Actor {
 public:
  using Accepts = Messages<Visit>;
  explicit Visitors(R room) : room_(std::move(room)) {}
  Task<int> on(Visit) {
    int most = 0;
    auto a = room_.ask(Enter{1}, 10s);
    auto b = room_.ask(Enter{2}, 10s);
    auto c = room_.ask(Enter{3}, 10s);
    const Result<int> first = co_await a;
    const Result<int> second = co_await b;
    const Result<int> third = co_await c;
    for (const Result<int>& result : {first, second, third}) most = std::max(most, result ? *result : -1);
    co_return most;
  }

 private:
  R room_;
};

template <std::uint32_t kAtOnce>
int max_inside() {
  System system({.workers = 2});
  auto room = system.spawn<Room<kAtOnce>>();
  auto visitors = system.spawn<Visitors<RefOf<Room<kAtOnce>>>>({}, room);
  return *visitors.ask_blocking(Visit{}, 10s);
}

TEST(Actor, ASerialActorFinishesAHandlerBeforeTheNext) {
  EXPECT_EQ(max_inside<1>(), 1);
}
TEST(Actor, AReentrantActorInterleavesUpToItsLimit) {
  EXPECT_EQ(max_inside<2>(), 2);
  EXPECT_EQ(max_inside<64>(), 3);
}

// -- start, stop, launch

std::vector<std::string>* diary = nullptr;

struct Write {
  std::string line;
};
class Diarist : public Actor {
 public:
  using Accepts = Messages<Write>;
  Task<void> on_start() {
    diary->push_back("starting");
    auto pause = sleep_for(5ms);
    const Result<void> rested = co_await pause;
    diary->push_back(rested.ok() ? "started" : "?");
  }
  void on(Write write) {
    diary->push_back(write.line);
    if (write.line == "last") stop();
  }
  void on_stop() { diary->push_back("stopping"); }
  ~Diarist() override { diary->push_back("gone"); }
};

TEST(Actor, StartsBeforeMessagesAndStopsAfterItsTurn) {
  std::vector<std::string> lines;
  diary = &lines;
  System system({.workers = 1});
  auto diarist = system.spawn<Diarist>();
  for (const char* line : {"one", "last", "too late"}) diarist.tell(Write{line});
  ASSERT_TRUE(eventually([&] { return diarist.stopped(); }));
  EXPECT_EQ(diarist.tell(Write{"much too late"}), SendStatus::kStopped);
  system.stop();
  EXPECT_EQ(lines, (std::vector<std::string>{"starting", "started", "one", "last", "stopping", "gone"}));
  EXPECT_EQ(system.dead_letters(), 2U);
}

struct Launch {};
struct Ticked {
  using Reply = int;
};
class Ticker : public Actor {
 public:
  using Accepts = Messages<Launch, Ticked>;
  void on(Launch) { launch(tick()); }
  int on(Ticked) { return ticks_; }

 private:
  Task<void> tick() {
    while (true) {
      auto pause = sleep_for(1ms);
      const Result<void> rested = co_await pause;
      ticks_ += rested.ok() ? 1 : 0;
    }
  }
  int ticks_ = 0;
};

TEST(Actor, ALaunchedTaskRunsBesideTheHandlers) {
  System system({.workers = 1});
  auto ticker = system.spawn<Ticker>();
  ticker.tell(Launch{});
  EXPECT_TRUE(eventually([&] { return *ticker.ask_blocking(Ticked{}, 5s) >= 5; }));
  const StopReport report = system.stop(50ms);
  EXPECT_TRUE(report.complete);
  EXPECT_TRUE(report.drained) << "a launched task is not undone work";
}

TEST(Actor, AConstructorThatThrowsLeavesNothingBehind) {
  class Fragile : public Actor {
   public:
    using Accepts = Messages<Add>;
    explicit Fragile(int) { throw std::runtime_error("no"); }
    void on(Add) {}
  };
  System system({.workers = 1});
  EXPECT_THROW(system.spawn<Fragile>({}, 1), std::runtime_error);
  EXPECT_THROW(system.spawn<Fragile>({.placement = Placement::own_thread()}, 1), std::runtime_error);
  EXPECT_EQ(system.actor_count(), 0U);
}

TEST(Actor, RefsOutliveTheirSystem) {
  RefOf<Counter> counter;
  {
    System system({.workers = 1});
    counter = system.spawn<Counter>();
  }
  EXPECT_EQ(counter.tell(Add{1}), SendStatus::kStopped);
  EXPECT_EQ(counter.ask_blocking(Total{}, 1s).error().code, ErrorCode::kStopped);
  counter.stop();
  EXPECT_TRUE(counter.stopped());
}

TEST(Actor, RefsCompareAndHashByIdentity) {
  System system({.workers = 1});
  auto one = system.spawn<Counter>();
  auto two = system.spawn<Counter>();
  EXPECT_NE(one, two);
  std::unordered_map<RefOf<Counter>, int> numbers{{one, 1}, {two, 2}};
  EXPECT_EQ(numbers[one], 1);
  EXPECT_FALSE(RefOf<Counter>());
}

// Runs long turns back to back, and gets a message from another thread in the middle of each.
struct LongTurn {};
struct Heard {
  int during;
};
struct WorstDelay {
  using Reply = int;
};
class Busy : public Actor {
 public:
  using Accepts = Messages<LongTurn, Heard, WorstDelay>;

  void on(LongTurn) {
    ++turns_;
    std::thread([me = self(*this), turn = turns_] { me.tell(Heard{turn}); }).join();
    std::this_thread::sleep_for(5ms);  // longer than any time slice
    if (turns_ < 60) self(*this).tell(LongTurn{});
  }
  void on(Heard heard) {
    if (heard.during > 10) worst_ = std::max(worst_, turns_ - heard.during);  // ignores the first turns
  }
  int on(WorstDelay) { return turns_ == 60 ? worst_ : -1; }

 private:
  int turns_ = 0;
  int worst_ = 0;
};

TEST(Actor, WhatArrivesWaitsForOneMoreLongTurnAtMost) {
  System system({.workers = 1});
  for (const bool own_thread : {true, false}) {
    const auto busy =
        own_thread ? system.spawn<Busy>({.placement = Placement::own_thread()}) : system.spawn<Busy>({});
    busy.tell(LongTurn{});
    int worst = -1;
    EXPECT_TRUE(eventually([&] { return (worst = *busy.ask_blocking(WorstDelay{}, 20s)) >= 0; }));
    EXPECT_LE(worst, 1);
  }
}

}  // namespace
}  // namespace reprise::runtime
