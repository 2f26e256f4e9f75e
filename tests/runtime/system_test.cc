// Systems: placement, introspection, and orderly, bounded stop.

#include "runtime/system.h"

#include <set>

#include "tests/runtime/probe.h"

namespace reprise::runtime {
namespace {

struct Where {
  using Reply = std::thread::id;
};
struct Work {
  int ms;
};
struct HoldTurn {  // does not return until released
  std::atomic<bool>* begun;
  std::atomic<bool>* let_go;
};
struct Wait1 {
  using Reply = int;
  int ms;
};
struct SpawnNear {
  using Reply = std::thread::id;
};

class Worker : public Actor {
 public:
  using Accepts = Messages<Where, Work, HoldTurn, Wait1, SpawnNear>;
  std::thread::id on(Where) { return std::this_thread::get_id(); }
  void on(Work work) {
    std::this_thread::sleep_for(std::chrono::milliseconds(work.ms));
    ++done;
  }
  void on(HoldTurn hold) {
    *hold.begun = true;
    while (!*hold.let_go) std::this_thread::sleep_for(100us);
  }
  Task<int> on(Wait1 wait) {
    auto pause = sleep_for(std::chrono::milliseconds(wait.ms));
    const Result<void> rested = co_await pause;
    ++done;
    co_return rested.ok() ? 1 : 0;
  }
  Task<std::thread::id> on(SpawnNear) {
    auto child = spawn<Worker>({.placement = Placement::near()});
    auto asked = child.ask(Where{}, 5s);
    const Result<std::thread::id> where = co_await asked;
    co_return *where;
  }
  static inline std::atomic<int> done{0};
};

TEST(System, PlacesActorsWhereTheyWereAskedFor) {
  System system({.workers = 2});
  std::set<std::thread::id> pool;
  for (int i = 0; i < 16; ++i) pool.insert(*system.spawn<Worker>().ask_blocking(Where{}, 5s));
  EXPECT_EQ(pool.size(), 2U);
  auto own = system.spawn<Worker>({.name = "device 0", .placement = Placement::own_thread()});
  const std::thread::id own_thread = *own.ask_blocking(Where{}, 5s);
  EXPECT_FALSE(pool.contains(own_thread));
  EXPECT_EQ(*own.ask_blocking(SpawnNear{}, 5s), own_thread);
  EXPECT_STREQ(own.name(), "device 0");
}

TEST(System, OwnThreadsComeAndGo) {
  System system({.workers = 1});
  for (int i = 0; i < 50; ++i) {
    auto own = system.spawn<Worker>({.placement = Placement::own_thread()});
    EXPECT_TRUE(own.ask_blocking(Where{}, 5s).ok());
    own.stop();
    EXPECT_TRUE(eventually([&] { return own.stopped(); }));
  }
  EXPECT_TRUE(eventually([&] { return system.actor_count() == 0; }));
  EXPECT_LT(system.core()->executors().size(), 20U) << "ended threads are reaped";
}

TEST(System, TellsWhatItsActorsDo) {
  std::atomic<bool> begun{false};
  std::atomic<bool> let_go{false};
  System system({.workers = 1});
  auto worker = system.spawn<Worker>({.name = "digger", .placement = Placement::own_thread()});
  EXPECT_TRUE(worker.ask_blocking(Where{}, 5s).ok());
  worker.tell(HoldTurn{&begun, &let_go});
  ASSERT_TRUE(eventually([&] { return begun.load(); }));
  for (int i = 0; i < 3; ++i) worker.tell(Work{0});
  ActorInfo seen{};
  EXPECT_TRUE(eventually([&] {
    seen = system.actors().at(0);
    return seen.running_ns > 2'000'000;
  }));
  EXPECT_EQ(seen.name, "digger");
  EXPECT_EQ(seen.id, worker.id());
  EXPECT_EQ(seen.life, Cell::Life::kRunning);
  EXPECT_EQ(seen.mailbox_depth, 3U);
  let_go = true;
  EXPECT_TRUE(eventually([&] { return system.actors().at(0).turns == 5; }));
  EXPECT_TRUE(eventually([&] { return system.actors().at(0).busy_ns >= seen.running_ns; }));
  EXPECT_EQ(system.actors(0).size(), 0U);
}

TEST(System, AStopWorksOffWhatWaits) {
  Worker::done = 0;
  System system({.workers = 2});
  auto worker = system.spawn<Worker>();
  auto other = system.spawn<Worker>();
  for (int i = 0; i < 20; ++i) worker.tell(Work{1});
  other.tell(Wait1{30});
  const StopReport report = system.stop();
  EXPECT_TRUE(report.drained);
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(Worker::done, 21);
  EXPECT_THROW(system.spawn<Worker>(), SystemStopped);
}

TEST(System, ADrainThatTakesTooLongBouncesTheRest) {
  Worker::done = 0;
  System system({.workers = 1});
  auto worker = system.spawn<Worker>();
  Result<int> waiting(0);
  std::atomic<bool> told{false};
  std::thread asks([&] {  // same sender, so the ask is handled after the work
    for (int i = 0; i < 1000; ++i) worker.tell(Work{5});
    told = true;
    waiting = worker.ask_blocking(Wait1{1}, 10s);
  });
  ASSERT_TRUE(eventually([&] { return told.load(); }));
  const StopReport report = system.stop(20ms);
  asks.join();
  EXPECT_FALSE(report.drained);
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(waiting.error().code, ErrorCode::kStopped);
  EXPECT_LT(Worker::done, 1000);
}

TEST(System, ATurnThatHangsIsNamedAndLeftBehind) {
  // The hanging thread keeps its data alive; the test releases it at the end.
  struct Hanging {
    std::atomic<bool> begun{false}, let_go{false}, over{false};
  };
  class Hanger : public Actor {
   public:
    using Accepts = Messages<Work>;
    explicit Hanger(std::shared_ptr<Hanging> state) : state_(std::move(state)) {}
    ~Hanger() override { state_->over = true; }
    void on(Work) {
      state_->begun = true;
      while (!state_->let_go) std::this_thread::sleep_for(1ms);
    }

   private:
    const std::shared_ptr<Hanging> state_;
  };
  const auto state = std::make_shared<Hanging>();
  {
    System system({.workers = 1});
    auto hanger = system.spawn<Hanger>({.name = "hanger", .placement = Placement::own_thread()}, state);
    hanger.tell(Work{});
    ASSERT_TRUE(eventually([&] { return state->begun.load(); }));
    const StopReport report = system.stop(20ms, 20ms);
    EXPECT_FALSE(report.complete);
    ASSERT_EQ(report.stuck.size(), 1U);
    EXPECT_EQ(report.stuck[0].name, "hanger");
    EXPECT_GT(report.stuck[0].running_ns, 1'000'000U);
  }
  state->let_go = true;
  EXPECT_TRUE(eventually([&] { return state->over.load(); }));
}

TEST(System, SpawningStormsEndWithTheSystem) {
  // Actors that keep spawning while the system stops.
  class Breeder : public Actor {
   public:
    using Accepts = Messages<Work>;
    void on(Work work) {
      auto child = spawn<Breeder>({});
      child.tell(work);
      self(*this).tell(work);
    }
  };
  for (int i = 0; i < 5; ++i) {
    System system({.workers = 2, .hooks = quiet()});
    system.spawn<Breeder>().tell(Work{});
    std::this_thread::sleep_for(3ms);
    const StopReport report = system.stop(5ms, 20s);
    EXPECT_FALSE(report.drained);
    EXPECT_TRUE(report.complete);
  }
}

TEST(System, SystemsTalkToEachOther) {
  System one({.workers = 1});
  System two({.workers = 1});
  class Relay : public Actor {
   public:
    using Accepts = Messages<Where>;
    explicit Relay(RefOf<Worker> other) : other_(std::move(other)) {}
    Task<std::thread::id> on(Where) {
      auto asked = other_.ask(Where{}, 5s);
      const Result<std::thread::id> where = co_await asked;
      co_return where.ok() ? *where : std::thread::id();
    }

   private:
    RefOf<Worker> other_;
  };
  auto worker = two.spawn<Worker>();
  auto relay = one.spawn<Relay>({}, worker);
  EXPECT_EQ(*relay.ask_blocking(Where{}, 5s), *worker.ask_blocking(Where{}, 5s));
  two.stop();
  EXPECT_EQ(*relay.ask_blocking(Where{}, 5s), std::thread::id());
}

TEST(SystemDeathTest, WrongUseEndsTheProgramWithAReason) {
  EXPECT_DEATH({ const Worker worker; }, "an actor was made without spawn");
  EXPECT_DEATH(
      {
        class Hasty : public Actor {
         public:
          using Accepts = Messages<Work>;
          Hasty() { self(*this).tell(Work{1}); }
          void on(Work) {}
        };
        System system({.workers = 1});
        system.spawn<Hasty>();
      },
      "do so in on_start");
  EXPECT_DEATH(
      {
        System system({.workers = 1});
        class Blocker : public Actor {
         public:
          using Accepts = Messages<Work>;
          explicit Blocker(RefOf<Worker> worker) : worker_(std::move(worker)) {}
          void on(Work) { static_cast<void>(worker_.ask_blocking(Where{}, 1s)); }

         private:
          RefOf<Worker> worker_;
        };
        system.spawn<Blocker>({}, system.spawn<Worker>()).tell(Work{});
        std::this_thread::sleep_for(5s);
      },
      "ask_blocking\\(\\) on a thread that runs actors");
}

}  // namespace
}  // namespace reprise::runtime
