// The timer wheel against a naive model, and sleeping actors.

#include "runtime/detail/timer_wheel.h"

#include <map>
#include <random>

#include "tests/runtime/probe.h"
#include "tests/sanitized.h"

namespace reprise::runtime {
namespace {

using std::chrono::milliseconds;

struct Alarm : TimerEntry {
  Alarm() : TimerEntry(fire_it) {}
  static void fire_it(TimerEntry& entry) {
    auto& alarm = static_cast<Alarm&>(entry);
    ++alarm.fired;
    alarm.fired_at = *alarm.now;
  }
  int fired = 0;
  TimePoint due;
  TimePoint fired_at;
  const TimePoint* now = nullptr;
};

TEST(TimerWheel, NeverEarlyAndAtTheFirstAdvanceAfterItsTick) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 32; round += kSanitized ? 4 : 1) {
    const TimePoint origin = Clock::now();
    TimerWheel wheel(origin);
    TimePoint now = origin;
    std::vector<std::unique_ptr<Alarm>> alarms;
    // Spans for each level of the wheel and beyond the last.
    const std::uint64_t span_ms = std::uint64_t{1} << (3 + round);
    for (int step = 0; step < 60; ++step) {
      for (int k = 0; k < 3; ++k) {
        auto alarm = std::make_unique<Alarm>();
        alarm->now = &now;
        alarm->due = now + milliseconds(random() % span_ms);
        alarm->due += std::chrono::microseconds(random() % 1000);
        wheel.arm(*alarm, alarm->due);
        alarms.push_back(std::move(alarm));
      }
      if (random() % 2 == 0) {
        Alarm& some = *alarms[random() % alarms.size()];
        if (some.armed()) {
          some.cancel();
          some.fired = 1;  // counts as done
          some.due = some.fired_at = now;
        }
      }
      const TimePoint wake = wheel.next_wake();
      const TimePoint before = now;
      now += milliseconds(random() % (span_ms / 16 + 2));
      now += std::chrono::microseconds(random() % 1000);
      for (const auto& alarm : alarms) {
        if (alarm->armed()) {
          ASSERT_LE(wake, std::max(alarm->due, before) + 2ms) << "would oversleep";
        }
      }
      wheel.advance(now);
      for (const auto& alarm : alarms) {
        ASSERT_LE(alarm->fired, 1);
        if (alarm->fired == 1) {
          ASSERT_GE(alarm->fired_at, alarm->due);
        }
        if (alarm->fired == 0) {
          ASSERT_LT(now, std::max(alarm->due, before) + 2ms) << "late";
        }
      }
    }
  }
}

TEST(TimerWheel, AFiringEntryMayArmItselfAgain) {
  struct Repeating : TimerEntry {
    explicit Repeating(TimerWheel& owner) : TimerEntry(fire_it), wheel(owner) {}
    static void fire_it(TimerEntry& entry) {
      auto& self = static_cast<Repeating&>(entry);
      if (++self.fired < 5) self.wheel.arm(self, TimePoint::min());
    }
    TimerWheel& wheel;
    int fired = 0;
  };
  const TimePoint origin = Clock::now();
  TimerWheel wheel(origin);
  Repeating entry(wheel);
  wheel.arm(entry, origin);
  wheel.advance(origin + 1s);
  EXPECT_EQ(entry.fired, 5);
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.next_wake(), TimePoint::max());
}

TEST(TimerWheel, ADestroyedWheelDisarmsItsEntries) {
  Alarm alarm;
  {
    TimerWheel wheel(Clock::now());
    wheel.arm(alarm, TimePoint::max());
  }
  EXPECT_FALSE(alarm.armed());
}

Task<int> sleeps(void*) {
  const TimePoint begin = Clock::now();
  auto pause = sleep_for(15ms);
  const Result<void> rested = co_await pause;
  auto past = sleep_until(begin);
  const Result<void> at_once = co_await past;
  co_return rested.ok() && at_once.ok() && Clock::now() - begin >= 15ms ? 1 : 0;
}

TEST(Sleep, LastsAtLeastItsTime) {
  System system({.workers = 1});
  EXPECT_EQ(*run_in_actor(system, sleeps), 1);
}

Task<int> canceled_sleep(void*) {
  CancelSource source;
  source.cancel();
  auto pause = sleep_for(1h, source.token());
  const Result<void> rested = co_await pause;
  co_return !rested.ok() && rested.error().code == ErrorCode::kCanceled ? 1 : 0;
}

TEST(Sleep, ACanceledTokenEndsItAtOnce) {
  System system({.workers = 1});
  EXPECT_EQ(*run_in_actor(system, canceled_sleep), 1);
}

}  // namespace
}  // namespace reprise::runtime
