// Recorded sessions as files: what is in them, how large they may be, and one after the other.

#include "traces/session_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/json.h"
#include "tests/eventually.h"
#include "tests/temp_dir.h"
#include "traces/request_trace.h"
#include "traces/session_control.h"
#include "traces/trace.h"

namespace reprise::traces {
namespace {

namespace fs = std::filesystem;

class SessionFileTest : public testing::Test {
 protected:
  fs::path path(const std::string& name) { return folder_.path() / name; }

  static Json::Array events_of(const fs::path& file) {
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    const auto parsed = Json::parse(text.str());
    EXPECT_TRUE(parsed.ok()) << text.str();
    if (!parsed.ok()) return {};
    const Json* events = parsed->find("traceEvents");
    return events == nullptr ? Json::Array{} : events->as_array();
  }

  /// Of that phase; all of them where `name` is empty.
  static std::vector<Json> of(const Json::Array& events, const std::string& phase,
                              const std::string& name = {}) {
    std::vector<Json> found;
    for (const Json& event : events) {
      if (event.find("ph")->as_string() != phase) continue;
      if (name.empty() || event.find("name")->as_string() == name) found.push_back(event);
    }
    return found;
  }

 private:
  const test::TempDir folder_;
};

constexpr ZoneSite kOuter{"outer"};
constexpr ZoneSite kInner{"inner"};

TEST_F(SessionFileTest, HoldsZonesPlotsMessagesAndRequests) {
  auto file = SessionFile::open(path("a.json"));
  ASSERT_TRUE(file.ok());
  {
    const Zone outer(kOuter);
    Zone inner(kInner);
    ASSERT_TRUE(inner.on());
    inner.text("a \"quoted\" text\n with \xe2\x82\xac");
    plot("depth", 3.5);
    message("it happened");
    frame("decode step");
    const RequestTrace request("req-1", "accepted");
    request.mark("restored", {{"tokens", 12}});
    request.end("sent");
  }
  const SessionFile::Summary summary = (*file)->stop();
  EXPECT_EQ(summary.events, 8U);
  EXPECT_EQ(summary.dropped, 0U);
  EXPECT_EQ(summary.error, "");
  EXPECT_EQ(summary.bytes, fs::file_size(path("a.json")));

  const Json::Array events = events_of(path("a.json"));
  const std::vector<Json> zones = of(events, "X");
  ASSERT_EQ(zones.size(), 2U);  // the inner one ends first
  EXPECT_EQ(zones[0].find("name")->as_string(), "inner");
  EXPECT_EQ(zones[0].find("args")->find("text")->as_string(), "a \"quoted\" text\n with \xe2\x82\xac");
  EXPECT_EQ(zones[1].find("name")->as_string(), "outer");
  EXPECT_EQ(of(events, "C", "depth").size(), 1U);
  EXPECT_EQ(of(events, "i", "it happened").size(), 1U);
  EXPECT_EQ(of(events, "i", "decode step").size(), 1U);
  ASSERT_EQ(of(events, "b", "request req-1").size(), 1U);
  ASSERT_EQ(of(events, "e", "request req-1").size(), 1U);
  ASSERT_EQ(of(events, "n", "restored").size(), 1U);
  EXPECT_EQ(of(events, "n", "restored")[0].find("args")->find("text")->as_string(), "tokens=12");
  EXPECT_EQ(of(events, "n", "restored")[0].find("id")->as_string(), "req-1");
}

TEST_F(SessionFileTest, EndsByItselfWhenItIsFullAndStaysReadable) {
  constexpr std::uint64_t kMax = 20'000;
  auto file = SessionFile::open(path("small.json"), kMax);
  ASSERT_TRUE(file.ok());
  for (int i = 0; i < 2'000; ++i) message("a message of some length");
  ASSERT_TRUE(eventually([] { return !recording(); })) << "a full file ends the recording";
  const SessionFile::Summary summary = (*file)->stop();
  EXPECT_TRUE(summary.full);
  EXPECT_EQ(summary.events + summary.dropped, 2'000U);
  EXPECT_GT(summary.dropped, 0U);
  EXPECT_LE(fs::file_size(path("small.json")), kMax);
  const Json::Array events = events_of(path("small.json"));
  const std::vector<Json> end = of(events, "M", "trace_end");
  ASSERT_EQ(end.size(), 1U);
  EXPECT_TRUE(end[0].find("args")->find("full")->as_bool());
}

TEST_F(SessionFileTest, SaysWhyItCannotBegin) {
  const auto nowhere = SessionFile::open(path("no-such-folder") / "a.json");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.error().find("no-such-folder"), std::string::npos);
  EXPECT_FALSE(recording());

  auto one = SessionFile::open(path("one.json"));
  ASSERT_TRUE(one.ok());
  const auto two = SessionFile::open(path("two.json"));
  ASSERT_FALSE(two.ok());
  EXPECT_EQ(two.error(), "a trace is being recorded already");
  EXPECT_FALSE(fs::exists(path("two.json")));
}

TEST_F(SessionFileTest, SessionsFollowEachOtherInFilesOfTheirOwn) {
  std::mutex mutex;
  std::vector<std::string> told;
  SessionControl control(path("t.json"), 1 << 20, [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    told.push_back(line);
  });
  EXPECT_FALSE(control.state().records);
  EXPECT_FALSE(control.stop().ok()) << "nothing to stop";
  for (const char* name : {"t.json", "t.2.json", "t.3.json"}) {
    ASSERT_TRUE(eventually([&] { return control.start().ok(); }));
    EXPECT_FALSE(control.start().ok()) << "it runs";
    EXPECT_TRUE(control.state().records);
    EXPECT_EQ(control.state().file, path(name).string());
    message(name);
    ASSERT_TRUE(control.stop().ok());
    EXPECT_FALSE(control.state().records);
  }
  control.finish();
  for (const char* name : {"t.json", "t.2.json", "t.3.json"}) {
    const Json::Array events = events_of(path(name));
    EXPECT_EQ(of(events, "i", name).size(), 1U);
    EXPECT_EQ(of(events, "i").size(), 1U) << "a session has its own events alone";
  }
  const std::lock_guard lock(mutex);
  EXPECT_EQ(told.size(), 6U) << "a line for each begin and end";
}

}  // namespace
}  // namespace reprise::traces
