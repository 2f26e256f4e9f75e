// Failure: stop, restart with limits, escalation, and notification.

#include "runtime/supervision.h"

#include <future>
#include <memory>

#include "tests/runtime/probe.h"

namespace reprise::runtime {
namespace {

struct Fail {};
struct FailAsk {
  using Reply = int;
};
struct Value {
  using Reply = int;
};
struct Bump {};
struct Slow {
  using Reply = int;
};

class Fragile : public Actor {
 public:
  using Accepts = Messages<Fail, FailAsk, Value, Bump, Slow>;
  static constexpr std::uint32_t kConcurrentHandlers = 4;
  explicit Fragile(int initial) : value_(initial) { ++made; }
  void on(Fail) { throw std::runtime_error("broken"); }
  Task<int> on(FailAsk) {
    auto pause = sleep_for(1ms);
    const Result<void> rested = co_await pause;
    if (rested.ok()) throw std::runtime_error("broken later");
    co_return 0;
  }
  int on(Value) { return value_; }
  void on(Bump) { ++value_; }
  Task<int> on(Slow) {
    auto pause = sleep_for(1h);
    const Result<void> rested = co_await pause;
    co_return rested.ok() ? 1 : 0;
  }
  static inline std::atomic<int> made{0};

 private:
  int value_;
};

class Watcher : public Actor {
 public:
  using Accepts = Messages<Down, Value>;
  explicit Watcher(RefOf<Fragile> watched) : watched_(std::move(watched)) {}
  void on_start() { watch(*this, watched_); }
  void on(Down down) {
    last_reason = down.reason;
    last_why_length = static_cast<int>(down.why.size());
    ++downs;  // last: publishes the other members
  }
  int on(Value) { return downs; }
  static inline std::atomic<int> downs{0};
  static inline std::atomic<StopReason> last_reason{};
  static inline std::atomic<int> last_why_length{0};

 private:
  RefOf<Fragile> watched_;
};

TEST(Supervision, AFailureStopsTheActorAndTellsItsWatcherOnce) {
  Watcher::downs = 0;
  System system({.workers = 2, .hooks = quiet()});
  auto fragile = system.spawn<Fragile>({}, 7);
  auto watcher = system.spawn<Watcher>({}, fragile);
  EXPECT_EQ(*watcher.ask_blocking(Value{}, 5s), 0);
  fragile.tell(Fail{});
  fragile.tell(Fail{});
  EXPECT_TRUE(eventually([] { return Watcher::downs == 1; }));
  EXPECT_EQ(Watcher::last_reason, StopReason::kFailed);
  EXPECT_EQ(Watcher::last_why_length, 6);
  EXPECT_TRUE(fragile.stopped());
  // A watcher added after the end is told of it, too.
  auto late = system.spawn<Watcher>({}, fragile);
  EXPECT_TRUE(eventually([] { return Watcher::downs == 2; }));
  EXPECT_EQ(Watcher::last_reason, StopReason::kFailed);
  EXPECT_EQ(Watcher::last_why_length, 6);
  std::this_thread::sleep_for(2ms);
  EXPECT_EQ(Watcher::downs, 2);
}

TEST(Supervision, ARestartKeepsReferencesAndWaitingMessages) {
  System system({.workers = 1, .hooks = quiet()});
  Fragile::made = 0;
  auto fragile = system.spawn<Fragile>({.on_failure = OnFailure::restart(3, 1h)}, 7);
  fragile.tell(Bump{});
  EXPECT_EQ(*fragile.ask_blocking(Value{}, 5s), 8);
  fragile.tell(Fail{});
  fragile.tell(Bump{});  // waits for the restart
  EXPECT_EQ(*fragile.ask_blocking(Value{}, 5s), 8) << "made anew from 7, then bumped";
  EXPECT_EQ(Fragile::made, 2);
  EXPECT_EQ(fragile.ask_blocking(FailAsk{}, 5s).error().describe(), "handler threw: broken later");
  EXPECT_EQ(*fragile.ask_blocking(Value{}, 5s), 7);
}

TEST(Supervision, ARestartDropsSuspendedHandlers) {
  System system({.workers = 1, .hooks = quiet()});
  auto fragile = system.spawn<Fragile>({.on_failure = OnFailure::restart(3, 1h)}, 7);
  Result<int> slow(0);
  std::thread waiting([&] { slow = fragile.ask_blocking(Slow{}, 5s); });
  ASSERT_TRUE(eventually([&] { return system.actors().front().suspended_handlers == 1; }));
  fragile.tell(Fail{});
  waiting.join();
  EXPECT_EQ(slow.error().code, ErrorCode::kNoReply);
  EXPECT_EQ(*fragile.ask_blocking(Value{}, 5s), 7);
}

TEST(Supervision, OutOfRestartsStops) {
  Watcher::downs = 0;
  System system({.workers = 1, .hooks = quiet()});
  auto fragile = system.spawn<Fragile>({.on_failure = OnFailure::restart(2, 1h)}, 7);
  auto watcher = system.spawn<Watcher>({}, fragile);
  EXPECT_EQ(*watcher.ask_blocking(Value{}, 5s), 0);
  for (int i = 0; i < 3; ++i) fragile.tell(Fail{});
  EXPECT_TRUE(eventually([] { return Watcher::downs == 1; }));
  EXPECT_EQ(Watcher::last_reason, StopReason::kOutOfRestarts);
  EXPECT_EQ(fragile.tell(Bump{}), SendStatus::kStopped);
}

TEST(Supervision, FailuresOutsideTheWindowDoNotCount) {
  System system({.workers = 1, .hooks = quiet()});
  auto fragile = system.spawn<Fragile>({.on_failure = OnFailure::restart(1, 5ms)}, 7);
  for (int i = 0; i < 4; ++i) {
    fragile.tell(Fail{});
    EXPECT_EQ(*fragile.ask_blocking(Value{}, 5s), 7);
    std::this_thread::sleep_for(10ms);
  }
}

TEST(Supervision, ADelayedRestartWaits) {
  System system({.workers = 1, .hooks = quiet()});
  auto fragile =
      system.spawn<Fragile>({.on_failure = OnFailure::restart(1, 1h, OnFailure::Do::kStop, 20ms)}, 7);
  const TimePoint begin = Clock::now();
  fragile.tell(Fail{});
  EXPECT_EQ(*fragile.ask_blocking(Value{}, 5s), 7);
  EXPECT_GE(Clock::now() - begin, 20ms);
  fragile.tell(Fail{});
  EXPECT_TRUE(eventually([&] { return fragile.stopped(); }));
}

TEST(Supervision, ArgumentsThatCannotBeCopiedCannotBeRestarted) {
  class Owner : public Actor {
   public:
    using Accepts = Messages<Bump>;
    explicit Owner(std::unique_ptr<int> value) : value_(std::move(value)) {}
    void on(Bump) {}

   private:
    std::unique_ptr<int> value_;
  };
  System system({.workers = 1});
  EXPECT_THROW(system.spawn<Owner>({.on_failure = OnFailure::restart(1, 1s)}, std::make_unique<int>(1)),
               std::invalid_argument);
  EXPECT_EQ(system.actor_count(), 0U);
}

// -- parents and children

struct MakeChild {
  using Reply = RefOf<Fragile>;
  OnFailure on_failure;
  Placement placement;
};

class Parent : public Actor {
 public:
  using Accepts = Messages<MakeChild, Value, Bump>;
  Parent() { ++made; }
  RefOf<Fragile> on(MakeChild make) {
    return spawn<Fragile>({.placement = make.placement, .on_failure = make.on_failure}, 1);
  }
  int on(Value) { return 5; }
  void on(Bump) { stop(); }
  static inline std::atomic<int> made{0};
};

TEST(Supervision, ChildrenStopBeforeTheirParent) {
  System system({.workers = 2});
  auto parent = system.spawn<Parent>();
  std::vector<RefOf<Fragile>> children;
  for (int i = 0; i < 20; ++i) {
    children.push_back(*parent.ask_blocking(MakeChild{{},
                                                      i % 3 == 0   ? Placement::own_thread()
                                                      : i % 3 == 1 ? Placement::near()
                                                                   : Placement::pool()},
                                            5s));
  }
  parent.tell(Bump{});
  EXPECT_TRUE(eventually([&] { return parent.stopped(); }));
  for (const auto& child : children) EXPECT_TRUE(child.stopped());
  EXPECT_TRUE(eventually([&] { return system.actor_count() == 0; }));
}

TEST(Supervision, AnEscalationFailsTheParent) {
  System system({.workers = 2, .hooks = quiet()});
  auto parent = system.spawn<Parent>();
  auto child = *parent.ask_blocking(MakeChild{OnFailure::escalate(), Placement::pool()}, 5s);
  child.tell(Fail{});
  EXPECT_TRUE(eventually([&] { return parent.stopped(); }));
}

TEST(Supervision, AnEscalationRestartsAParentThatMayBeRestarted) {
  System system({.workers = 2, .hooks = quiet()});
  Parent::made = 0;
  auto parent = system.spawn<Parent>({.on_failure = OnFailure::restart(1, 1h)});
  auto sibling = *parent.ask_blocking(MakeChild{{}, Placement::pool()}, 5s);
  auto child = *parent.ask_blocking(
      MakeChild{OnFailure::restart(1, 1h, OnFailure::Do::kEscalate), Placement::pool()}, 5s);
  child.tell(Fail{});
  EXPECT_EQ(*child.ask_blocking(Value{}, 5s), 1);
  child.tell(Fail{});  // exceeds its restarts
  EXPECT_TRUE(eventually([&] { return Parent::made == 2; }));
  EXPECT_EQ(*parent.ask_blocking(Value{}, 5s), 5);
  EXPECT_TRUE(sibling.stopped());
}

TEST(Supervision, AnEscalationWithoutParentReachesTheSystem) {
  std::atomic<int> failures{0};
  std::atomic<int> escalations{0};
  System system(
      {.workers = 1,
       .hooks = {.on_failure = [&](ActorId, const char*, const std::string&) { ++failures; },
                 .on_escalation = [&](ActorId, const char*, const std::string&) { ++escalations; }}});
  auto fragile = system.spawn<Fragile>({.on_failure = OnFailure::escalate()}, 1);
  fragile.tell(Fail{});
  EXPECT_TRUE(eventually([&] { return escalations == 1; }));
  EXPECT_EQ(failures, 1);
}

TEST(Supervision, AConstructorThatFailsOnRestartCountsAsAFailure) {
  class OnceOnly : public Actor {
   public:
    using Accepts = Messages<Fail>;
    explicit OnceOnly(std::shared_ptr<std::atomic<int>> made) {
      if (++*made > 1) throw std::runtime_error("not again");
    }
    void on(Fail) { throw std::runtime_error("broken"); }
  };
  System system({.workers = 1, .hooks = quiet()});
  const auto made = std::make_shared<std::atomic<int>>(0);
  auto once = system.spawn<OnceOnly>({.on_failure = OnFailure::restart(3, 1h)}, made);
  once.tell(Fail{});
  EXPECT_TRUE(eventually([&] { return once.stopped(); }));
  EXPECT_EQ(*made, 4);
}

// -- ends that meet

struct HoldUntilReleased {
  bool fails;
};

/// Blocks in its handler until it is released, so that its parent cannot end before.
class Holder : public Actor {
 public:
  using Accepts = Messages<HoldUntilReleased>;
  Holder(std::shared_ptr<std::promise<void>> holds, std::shared_future<void> released)
      : holds_(std::move(holds)), released_(std::move(released)) {}
  void on(HoldUntilReleased hold) {
    holds_->set_value();
    released_.wait();
    if (hold.fails) throw std::runtime_error("broken while held");
  }

 private:
  std::shared_ptr<std::promise<void>> holds_;
  std::shared_future<void> released_;
};

struct HoldChild {
  bool fails;
};

class HeldParent : public Actor {
 public:
  using Accepts = Messages<HoldChild, Fail>;
  HeldParent(std::shared_ptr<std::promise<void>> holds, std::shared_future<void> released)
      : holds_(std::move(holds)), released_(std::move(released)) {
    ++made;
  }
  void on(HoldChild child) {
    const SpawnOptions options{.placement = Placement::own_thread(), .on_failure = OnFailure::escalate()};
    spawn<Holder>(options, holds_, released_).tell(HoldUntilReleased{child.fails});
  }
  void on(Fail) { throw std::runtime_error("broken"); }
  static inline std::atomic<int> made{0};

 private:
  std::shared_ptr<std::promise<void>> holds_;
  std::shared_future<void> released_;
};

struct Watched {
  using Reply = int;
};

class ParentWatcher : public Actor {
 public:
  using Accepts = Messages<Down, Watched>;
  ParentWatcher(RefOf<HeldParent> watched, std::shared_ptr<std::promise<Down>> down)
      : watched_(std::move(watched)), down_(std::move(down)) {}
  void on_start() { watch(*this, watched_); }
  int on(Watched) { return 1; }
  void on(Down down) { down_->set_value(std::move(down)); }

 private:
  RefOf<HeldParent> watched_;
  std::shared_ptr<std::promise<Down>> down_;
};

struct HeldFamily {
  std::shared_ptr<std::promise<void>> holds = std::make_shared<std::promise<void>>();
  std::promise<void> release;
  std::shared_ptr<std::promise<Down>> down = std::make_shared<std::promise<Down>>();
};

bool begins_to_stop(const RefOf<HeldParent>& parent) {
  return eventually([&] { return parent.cell()->life() == Cell::Life::kStopping; });
}

TEST(Supervision, AStopRequestDoesNotHideAFailure) {
  HeldFamily family;
  System system({.workers = 1, .hooks = quiet()});
  auto parent = system.spawn<HeldParent>({}, family.holds, family.release.get_future().share());
  auto watcher = system.spawn<ParentWatcher>({}, parent, family.down);
  ASSERT_TRUE(watcher.ask_blocking(Watched{}, 20s).ok());
  parent.tell(HoldChild{.fails = false});
  family.holds->get_future().wait();
  parent.tell(Fail{});
  ASSERT_TRUE(begins_to_stop(parent)) << "it waits for its child";
  parent.stop();
  family.release.set_value();
  EXPECT_EQ(family.down->get_future().get().reason, StopReason::kFailed);
}

TEST(Supervision, ALastChildFailsWhileItsParentStops) {
  HeldFamily family;
  System system({.workers = 1, .hooks = quiet()});
  HeldParent::made = 0;
  auto parent = system.spawn<HeldParent>({.on_failure = OnFailure::restart(3, 1h)}, family.holds,
                                         family.release.get_future().share());
  auto watcher = system.spawn<ParentWatcher>({}, parent, family.down);
  ASSERT_TRUE(watcher.ask_blocking(Watched{}, 20s).ok());
  parent.tell(HoldChild{.fails = true});
  family.holds->get_future().wait();
  parent.stop();
  ASSERT_TRUE(begins_to_stop(parent)) << "it waits for its child";
  family.release.set_value();
  EXPECT_EQ(family.down->get_future().get().reason, StopReason::kStopped);
  EXPECT_TRUE(eventually([&] { return system.actor_count() == 1; })) << "the parent is not restarted";
  EXPECT_EQ(HeldParent::made, 1);
}

}  // namespace
}  // namespace reprise::runtime
