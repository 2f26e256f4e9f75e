// Task<T>: nesting, exceptions, depth, and exactly one destruction of every object in a frame.

#include "runtime/task.h"

#include "tests/runtime/probe.h"

namespace reprise::runtime {
namespace {

Task<int> leaf(int value) {
  co_return value;
}

Task<int> add(Counted, int a, int b) {
  const Counted local;
  Task<int> first = leaf(a);
  const int left = co_await first;
  Task<int> second = leaf(b);
  const int right = co_await second;
  co_return left + right;
}

Task<void> nothing() {
  const int one = 1;
  static_cast<void>(one);
  co_return;
}

Task<int> nested(void*) {
  const Counted local;
  Task<void> empty = nothing();
  co_await empty;
  Task<int> sum = add(Counted{}, 20, 22);
  const int result = co_await sum;
  co_return result;
}

TEST(Task, NestsAndDestroysEachObjectOnce) {
  System system({.workers = 1});
  EXPECT_EQ(*run_in_actor(system, nested), 42);
  EXPECT_EQ(Counted::alive, 0);
}

Task<int> many_in_a_row(void*) {
  int sum = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    Task<int> one = leaf(1);
    sum += co_await one;
  }
  co_return sum;
}

TEST(Task, AMillionAwaitsInARowNeedNoStack) {
  System system({.workers = 1});
  EXPECT_EQ(*run_in_actor(system, many_in_a_row), 1'000'000);
}

Task<int> dive(int depth) {
  if (depth == 0) co_return 0;
  Task<int> deeper = dive(depth - 1);
  const int below = co_await deeper;
  co_return below + 1;
}

Task<int> deep(void*) {
  Task<int> dived = dive(20'000);  // frames are on the heap, and symmetric transfer uses no stack
  const int result = co_await dived;
  co_return result;
}

TEST(Task, ADeepChainReturnsWithoutStack) {
  System system({.workers = 1});
  EXPECT_EQ(*run_in_actor(system, deep), 20'000);
}

Task<int> thrower(Counted) {
  const Counted local;
  Task<void> empty = nothing();
  co_await empty;
  throw std::runtime_error("out of cheese");
}

Task<int> catcher(void*) {
  Task<int> fails = thrower(Counted{});
  bool caught = false;
  try {
    co_await fails;
  } catch (const std::runtime_error& error) {
    caught = std::string(error.what()) == "out of cheese";
  }
  co_return caught ? 1 : 0;
}

TEST(Task, AnExceptionReachesTheAwaiter) {
  System system({.workers = 1});
  EXPECT_EQ(*run_in_actor(system, catcher), 1);
  EXPECT_EQ(Counted::alive, 0);
}

struct Hang {
  using Reply = int;
};
class Sleeper : public Actor {
 public:
  using Accepts = Messages<Hang>;
  static Task<int> inner(Counted) {
    const Counted local;
    auto pause = sleep_for(1h);
    const Result<void> rested = co_await pause;
    co_return rested.ok() ? 1 : 0;
  }
  Task<int> on(Hang) {
    const Counted local;
    Task<int> task = inner(Counted{});
    const int result = co_await task;
    co_return result;
  }
};

TEST(Task, StoppingTheActorDestroysASuspendedChain) {
  System system({.workers = 1});
  auto sleeper = system.spawn<Sleeper>();
  EXPECT_EQ(sleeper.tell(Hang{}), SendStatus::kSent);
  ASSERT_TRUE(eventually([] { return Counted::alive == 3; }));
  sleeper.stop();
  EXPECT_TRUE(eventually([&] { return sleeper.stopped() && Counted::alive == 0; }));
}

TEST(Task, AnUnstartedTaskIsDestroyedWithItsArguments) {
  {
    const Task<int> never = add(Counted{}, 1, 2);
    EXPECT_EQ(Counted::alive, 1);
  }
  EXPECT_EQ(Counted::alive, 0);
}

Task<int> mover(void*) {
  Task<int> first = add(Counted{}, 1, 2);
  Task<int> second = std::move(first);
  first = add(Counted{}, 3, 4);
  const int a = co_await second;
  const int b = co_await first;
  co_return a * 10 + b;
}

TEST(Task, MovesKeepTheirFrames) {
  System system({.workers = 1});
  EXPECT_EQ(*run_in_actor(system, mover), 37);
  EXPECT_EQ(Counted::alive, 0);
}

}  // namespace
}  // namespace reprise::runtime
