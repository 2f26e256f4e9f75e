// Traces of actors, recorded by traces::Recorder.

#include "traces/trace.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/runtime/probe.h"

namespace reprise::runtime {
namespace {

using traces::Event;
using traces::Recorder;

constexpr traces::ZoneSite kSecondHalf{"second half"};

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
    traces::Zone zone(kSecondHalf);
    if (zone.on()) zone.text("with text");
    traces::plot("depth", 3);
    co_return rested.ok() ? 1 : 0;
  }
};

/// Returns the zones of each track in order of their begin, outer ones first.
std::map<std::string, std::vector<Event>> zones_by_line(const std::vector<Event>& events) {
  std::map<std::string, std::vector<Event>> lines;
  for (const Event& event : events) {
    if (event.kind != Event::Kind::kZone) continue;
    lines[event.track != nullptr ? event.track : "thread " + std::to_string(event.thread)].push_back(event);
  }
  for (auto& [line, zones] : lines) {
    std::stable_sort(zones.begin(), zones.end(), [](const Event& a, const Event& b) {
      return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.end_ns > b.end_ns;
    });
  }
  return lines;
}

/// Checks that zones of a track are nested or disjoint.
void expect_nested(const std::string& line, const std::vector<Event>& zones) {
  std::vector<const Event*> open;
  for (const Event& zone : zones) {
    ASSERT_LE(zone.at_ns, zone.end_ns);
    while (!open.empty() && open.back()->end_ns <= zone.at_ns) open.pop_back();
    if (!open.empty()) {
      ASSERT_LE(zone.end_ns, open.back()->end_ns) << line << ": " << zone.name;
    }
    open.push_back(&zone);
  }
}

TEST(Trace, EveryTurnIsAZoneOnItsActorsTrackWithItsWait) {
  ASSERT_TRUE(Recorder::start());
  EXPECT_FALSE(Recorder::start()) << "one user at a time";
  {
    System system({.workers = 2});
    auto one = system.spawn<Tracer>({.name = "tracer one"});
    auto two = system.spawn<Tracer>({.name = "tracer two"});
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(*one.ask_blocking(Step{}, 5s), 1);
      EXPECT_EQ(*two.ask_blocking(Step{}, 5s), 1);
    }
  }
  Recorder::stop();
  const std::vector<Event> events = Recorder::take();
  EXPECT_EQ(Recorder::dropped(), 0U);

  std::map<std::string, int> turns;
  std::map<std::string, int> halves;
  std::set<std::uint64_t> sent;
  for (const Event& event : events) {
    if (event.kind == Event::Kind::kSent && event.name == std::string("Step")) {
      EXPECT_TRUE(event.text.starts_with("tracer ")) << event.text;
      sent.insert(event.flow);
    }
  }
  EXPECT_EQ(sent.size(), 40U);
  for (const auto& [line, zones] : zones_by_line(events)) {
    expect_nested(line, zones);
    for (const Event& zone : zones) {
      if (zone.name == std::string("Step")) {
        ++turns[line];
        EXPECT_GE(zone.wait_ns, 0);
        EXPECT_LT(zone.wait_ns, 60'000'000'000);
        EXPECT_TRUE(sent.contains(zone.flow)) << "a turn without its message";
      } else if (zone.name == std::string("second half")) {
        ++halves[line];
        EXPECT_EQ(zone.text, "with text");
      }
    }
  }
  for (const char* name : {"tracer one", "tracer two"}) {
    EXPECT_EQ(turns[name], 20);
    EXPECT_EQ(halves[name], 20) << "what follows a wait is on the actor's track, too";
  }
  const auto count = [&](Event::Kind kind, const std::string& what) {
    return std::count_if(events.begin(), events.end(), [&](const Event& event) {
      return event.kind == kind && (event.name == what || event.text == what);
    });
  };
  EXPECT_EQ(count(Event::Kind::kMessage, "step begins"), 40);
  EXPECT_EQ(count(Event::Kind::kPlot, "depth"), 40);
  EXPECT_GE(count(Event::Kind::kPlot, "mailbox of tracer one"), 20);
}

TEST(Trace, TracksAreOnePerActorAndUsedAgain) {
  ASSERT_TRUE(Recorder::start());
  {
    System system({.workers = 2});
    for (int round = 0; round < 3; ++round) {
      std::vector<RefOf<Tracer>> crowd;
      for (int i = 0; i < 4; ++i) crowd.push_back(system.spawn<Tracer>({.name = "crowd"}));
      for (auto& one : crowd) EXPECT_EQ(*one.ask_blocking(Step{}, 5s), 1);
      for (auto& one : crowd) one.stop();
      ASSERT_TRUE(eventually([&] { return system.actor_count() == 0; }));
    }
  }
  Recorder::stop();
  std::set<std::string> lines;
  for (const Event& event : Recorder::take()) {
    if (event.kind == Event::Kind::kZone && event.track != nullptr &&
        std::string(event.track).starts_with("crowd")) {
      lines.insert(event.track);
    }
  }
  EXPECT_EQ(lines, (std::set<std::string>{"crowd", "crowd 1", "crowd 2", "crowd 3"}));
}

TEST(Trace, NothingIsKeptWhileNobodyLooks) {
  {
    System system({.workers = 1});
    auto one = system.spawn<Tracer>({.name = "unseen"});
    EXPECT_EQ(*one.ask_blocking(Step{}, 5s), 1);
  }
  EXPECT_FALSE(traces::on());
  EXPECT_TRUE(Recorder::take().empty());
}

TEST(Trace, WhatIsTooMuchIsCounted) {
  ASSERT_TRUE(Recorder::start(10));
  for (int i = 0; i < 25; ++i) traces::plot("many", i);
  Recorder::stop();
  EXPECT_EQ(Recorder::take().size(), 10U);
  EXPECT_EQ(Recorder::dropped(), 15U);
}

TEST(Trace, NamesAreStableAndBounded) {
  System system({.workers = 1});
  auto one = system.spawn<Tracer>({.name = "same"});
  auto two = system.spawn<Tracer>({.name = "same"});
  EXPECT_EQ(one.name(), two.name()) << "one pointer for one name";
}

}  // namespace
}  // namespace reprise::runtime
