// Marks of a request: kept with it, and events of the trace while somebody records.

#include "traces/request_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "traces/recorder.h"

namespace reprise::traces {
namespace {

TEST(RequestTrace, KeepsMarksInOrderWithoutARecorder) {
  const RequestTrace trace("req-1", "accepted");
  trace.mark("restored", {{"tokens", 128}, {"origin", std::string_view("turn_end")}});
  trace.end("sent");
  const std::vector<Mark> marks = trace.marks();
  ASSERT_EQ(marks.size(), 3U);
  EXPECT_STREQ(marks[0].event, "accepted");
  EXPECT_EQ(marks[0].after_ns, 0);
  EXPECT_STREQ(marks[1].event, "restored");
  ASSERT_EQ(marks[1].fact_count, 2U);
  EXPECT_EQ(marks[1].facts[0].number, 128U);
  EXPECT_EQ(marks[1].facts[1].word, "turn_end");
  EXPECT_STREQ(marks[2].event, "sent");
  EXPECT_LE(marks[1].after_ns, marks[2].after_ns);
  EXPECT_TRUE(Recorder::take().empty());
}

TEST(RequestTrace, MarksAreEventsWithTheRequestsId) {
  ASSERT_TRUE(Recorder::start());
  const RequestTrace trace("req-2", "accepted");
  std::thread([trace] { trace.mark("elsewhere", {{"step", 7}}); }).join();
  trace.end("sent");
  Recorder::stop();
  std::vector<Event> events = Recorder::take();
  ASSERT_EQ(events.size(), 3U);
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.at_ns < b.at_ns; });
  EXPECT_EQ(events[0].kind, Event::Kind::kRequestBegin);
  EXPECT_EQ(events[1].kind, Event::Kind::kRequestMark);
  EXPECT_EQ(events[1].text, "step=7");
  EXPECT_EQ(events[2].kind, Event::Kind::kRequestEnd);
  for (const Event& event : events) EXPECT_EQ(event.id, "req-2");
}

TEST(RequestTrace, BeginsWhenItWasSaidToHaveBegun) {
  const RequestTrace trace("req-3", "accepted", now_ns() - 5'000'000);
  trace.mark("read");
  EXPECT_GE(trace.marks()[1].after_ns, 5'000'000);
}

TEST(RequestTrace, IsBounded) {
  const RequestTrace trace("req-4", "accepted");
  for (std::size_t i = 0; i < RequestTrace::kMaxMarks + 10; ++i) trace.mark("again");
  EXPECT_EQ(trace.marks().size(), RequestTrace::kMaxMarks);
  EXPECT_EQ(trace.unkept(), 11U);
}

TEST(RequestTrace, NobodysMarksGoNowhere) {
  const RequestTrace nobody;
  EXPECT_FALSE(nobody);
  nobody.mark("lost");
  nobody.end("lost");
  EXPECT_TRUE(nobody.marks().empty());
  EXPECT_EQ(nobody.id(), "");
}

}  // namespace
}  // namespace reprise::traces
