// The tracing façade with the recorder behind it: what a profiler would see of a run.

#include "traces/trace.h"

#include <map>

#include "tests/runtime/probe.h"

namespace reprise::runtime {
namespace {

using traces::Event;
using traces::Recorder;
using traces::Zone;

struct Step {
  using Reply = int;
};
class Tracer : public Actor {
 public:
  using Accepts = Messages<Step>;
  Task<int> on(Step) {
    traces::message("step begins");
    auto pause = sleep_for(1ms);
    const Result<void> rested = co_await pause;
    const Zone zone("second half");
    traces::plot("depth", 3);
    co_return rested.ok() ? 1 : 0;
  }
};

TEST(Trace, EveryTurnIsAFiberWithAZoneAndAllPairsMatch) {
  Recorder::instance().take();
  {
    System system({.workers = 2});
    auto one = system.spawn<Tracer>({.name = "tracer one"});
    auto two = system.spawn<Tracer>({.name = "tracer two"});
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(*one.ask_blocking(Step{}, 5s), 1);
      EXPECT_EQ(*two.ask_blocking(Step{}, 5s), 1);
    }
  }
  const std::vector<Event> events = Recorder::instance().take();
  EXPECT_EQ(Recorder::instance().dropped(), 0U);

  std::map<std::thread::id, std::vector<const Event*>> open;
  std::map<std::string, int> turns;
  int messages = 0;
  int halves = 0;
  for (const Event& event : events) {
    std::vector<const Event*>& stack = open[event.thread];
    switch (event.kind) {
      case Event::Kind::kFiberEnter:
        ASSERT_TRUE(stack.empty()) << "a fiber was entered within another";
        stack.push_back(&event);
        break;
      case Event::Kind::kFiberLeave:
        ASSERT_EQ(stack.size(), 1U) << "a zone was open when its fiber was left";
        ASSERT_EQ(stack.back()->name, event.name);
        stack.pop_back();
        break;
      case Event::Kind::kZoneBegin:
        ASSERT_FALSE(stack.empty()) << "a turn outside a fiber";
        if (stack.size() == 1) {
          EXPECT_EQ(stack.back()->name, event.name) << "the turn's zone bears the actor's name";
          if (event.text.find("Step") != std::string::npos) ++turns[event.name];
        } else {
          EXPECT_STREQ(event.name, "second half");
          ++halves;
        }
        stack.push_back(&event);
        break;
      case Event::Kind::kZoneEnd:
        ASSERT_FALSE(stack.empty());
        ASSERT_EQ(stack.back()->kind, Event::Kind::kZoneBegin);
        ASSERT_EQ(stack.back()->name, event.name);
        stack.pop_back();
        break;
      case Event::Kind::kMessage:
        EXPECT_EQ(event.text, "step begins");
        ++messages;
        break;
      case Event::Kind::kPlot:
        EXPECT_STREQ(event.name, "depth");
        break;
    }
  }
  for (const auto& [thread, stack] : open) EXPECT_TRUE(stack.empty());
  EXPECT_EQ(turns["tracer one"], 20);
  EXPECT_EQ(turns["tracer two"], 20);
  EXPECT_EQ(messages, 40);
  EXPECT_EQ(halves, 40);
}

TEST(Trace, NamesAreStableAndBounded) {
  System system({.workers = 1});
  auto one = system.spawn<Tracer>({.name = "same"});
  auto two = system.spawn<Tracer>({.name = "same"});
  EXPECT_EQ(one.name(), two.name()) << "one pointer for one name";
}

}  // namespace
}  // namespace reprise::runtime
