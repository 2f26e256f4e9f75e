// Bodies made to take long: while one client sends them, others are answered as if it were not there.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <thread>

#include "protocol/apis.h"
#include "protocol/http/body_parser.h"
#include "protocol/http/routes.h"
#include "tests/base/colliding_keys.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

constexpr std::size_t kBodyBytes = 32u << 20;
constexpr std::chrono::seconds kPatience{2};  // of a stranger, on the slowest machine

double ms_since(steady_clock::time_point begin) {
  return duration<double, std::milli>(steady_clock::now() - begin).count();
}

/// `open`, then `part` as often as it fits, then `close`.
std::string filled(const std::string& open, const std::string& part, const std::string& close,
                   std::size_t bytes = kBodyBytes) {
  std::string body = open;
  body.reserve(bytes);
  while (body.size() + part.size() + close.size() <= bytes) body += part;
  return body + close;
}

std::string many_keys(std::size_t count) {
  std::string body = R"({"prompt":"x")";
  for (std::size_t i = 0; i < count; ++i) body += ",\"" + std::to_string(i) + "\":0";
  return body + '}';
}

struct Hostile {
  const char* what;
  const char* path;
  std::function<std::string()> body;
  const char* answer;  // a part of it
};

std::vector<Hostile> hostile_bodies() {
  const char* completions = "/v1/completions";
  const char* chat = "/v1/chat/completions";
  return {
      {"keys that collide", completions, [] { return R"({"prompt":"x",)" + colliding_members(60'000) + '}'; },
       "Hello"},
      {"many keys", completions, [] { return many_keys(90'000); }, "Hello"},
      {"too many keys", completions, [] { return many_keys(1'900'000); },
       "more than 100000 members of objects"},
      {"arrays in arrays", completions, [] { return std::string(kBodyBytes, '['); }, "nested deeper than 64"},
      {"objects in objects", chat, [] { return filled("", R"({"a":)", ""); }, "nested deeper than 64"},
      {"escapes", completions, [] { return filled(R"({"prompt":")", R"(\u0061)", "\"}"); }, "Hello"},
      {"bad escapes", "/tokenize", [] { return filled(R"({"content":")", R"(\u0061)", "\\x\"}"); },
       "an escape that JSON"},
      {"an open string", "/tokenize", [] { return filled(R"({"content":")", "aaaaaaaa", ""); },
       "a string is not closed"},
      {"numbers", completions, [] { return filled(R"({"prompt":[1)", ",1", "]}", 20'000'000); },
       "more than 2250000 values"},
      {"token ids", completions, [] { return filled(R"({"prompt":[1)", ",1", "]}", 4'000'000); }, "Hello"},
      {"a message with much else", chat,
       [] {
         return filled(R"({"messages":[{"role":"user","content":"x","else":[[])", ",[]", "]}]}", 740'000);
       },
       "Hello"},
      {"many parts", chat,
       [] {
         return filled(R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"})",
                       R"(,{"type":"text","text":"a"})", "]}]}", 1'300'000);
       },
       "Hello"},
  };
}

/// The longest time that something handed to the loop had to wait.
class LoopWatch {
 public:
  explicit LoopWatch(IoLoop& loop) : thread_([this, &loop] { watch(loop); }) {}
  ~LoopWatch() {
    ending_ = true;
    thread_.join();
  }
  double take_longest_ms() { return longest_ms_.exchange(0); }

 private:
  void watch(IoLoop& loop) {
    while (!ending_) {
      std::promise<void> ran;
      const auto begin = steady_clock::now();
      boost::asio::post(loop.context(), [&] { ran.set_value(); });
      ran.get_future().wait();
      longest_ms_ = std::max(longest_ms_.load(), ms_since(begin));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::atomic<bool> ending_{false};
  std::atomic<double> longest_ms_{0};  // a figure alone, but read and set by two threads
  std::thread thread_;
};

TEST(HttpHostile, OthersAreAnsweredMeanwhile) {
  Served served;
  LoopWatch watch(served.loop);
  for (const Hostile& hostile : hostile_bodies()) {
    const std::string body = hostile.body();
    watch.take_longest_ms();
    std::atomic<bool> answered{false};
    double took_ms = 0;
    std::thread attacker([&] {
      HttpClient client(served.port());
      const auto begin = steady_clock::now();
      const ClientResponse response = client.post(hostile.path, body);
      took_ms = ms_since(begin);
      EXPECT_TRUE(response.whole) << hostile.what;
      EXPECT_NE(response.body.find(hostile.answer), std::string::npos)
          << hostile.what << ": " << response.body.substr(0, 300);
      EXPECT_LT(response.body.size(), 10'000u);
      answered = true;
    });
    double slowest_ms = 0;
    do {
      HttpClient client(served.port());
      auto begin = steady_clock::now();
      EXPECT_EQ(client.get("/health").status, 200);
      slowest_ms = std::max(slowest_ms, ms_since(begin));
      begin = steady_clock::now();
      EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"hi"})").status, 200);
      slowest_ms = std::max(slowest_ms, ms_since(begin));
    } while (!answered);
    attacker.join();
    std::printf("%-26s %5.1f MB: answered after %6.1f ms, others within %5.1f ms, loop paused %5.1f ms\n",
                hostile.what, static_cast<double>(body.size()) / 1e6, took_ms, slowest_ms,
                watch.take_longest_ms());
    EXPECT_LT(slowest_ms, duration<double>(kPatience).count() * 1000) << hostile.what;
  }
}

TEST(HttpHostile, LargeBodiesAloneGoToTheParsers) {
  Served served;
  const auto parsed_elsewhere = [&] {
    std::uint64_t turns = 0;
    for (const runtime::ActorInfo& actor : served.system.actors()) {
      if (actor.name == BodyParser::kName) turns += actor.turns;
    }
    return turns;
  };
  HttpClient client(served.port());
  const std::uint64_t before = parsed_elsewhere();
  const std::string chat = R"({"messages":[{"role":"user","content":"hi)";
  EXPECT_EQ(client.post("/v1/chat/completions", chat + "\"}]}").status, 200);
  EXPECT_EQ(client.post("/apply-template", chat + "\"}]}").status, 200);
  EXPECT_EQ(parsed_elsewhere(), before);
  const std::size_t bytes = HttpOptions().inline_body_bytes + 100;
  EXPECT_EQ(client.post("/v1/chat/completions", filled(chat, " hi", "\"}]}", bytes)).status, 200);
  EXPECT_EQ(client.post("/v1/completions", filled(R"({"prompt":")", " hi", "\"}", 3u << 20)).status, 200);
  EXPECT_EQ(client.post("/apply-template", filled(chat, " hi", "\"}]}", bytes)).status, 200);
  EXPECT_EQ(client.post("/tokenize", filled(R"({"content":")", " hi", "\"}", bytes)).status, 200);
  EXPECT_EQ(client.post("/detokenize", filled(R"({"tokens":[1)", ",1", "]}", bytes)).status, 200);
  EXPECT_EQ(client.post("/detokenize", filled(R"({"tokens":[1)", ",1", "]", bytes)).status, 400);
  // A turn is counted when it has ended, and its answer leaves before.
  EXPECT_TRUE(eventually([&] { return parsed_elsewhere() == before + 6; })) << parsed_elsewhere() - before;
}

TEST(HttpHostile, ClientsThatLeaveWhileTheirBodyIsParsed) {
  Served served;
  const std::string body = std::string(kBodyBytes / 4, '[');
  for (int i = 0; i < 20; ++i) {
    HttpClient client(served.port());
    client.send(HttpClient::post_text(i % 2 == 0 ? "/v1/completions" : "/tokenize", body));
  }
  HttpClient client(served.port());
  EXPECT_EQ(client.get("/health").status, 200);
  const std::string prompt = filled(R"({"prompt":")", "large ", "\"}", 2u << 20);
  EXPECT_EQ(client.post("/v1/completions", prompt).status, 200);
  const std::string tokens = filled(R"({"tokens":[65)", ",65", "]}", 100'000);
  EXPECT_EQ(client.post("/detokenize", tokens).status, 200);
}

/// Hands in many bodies at once, and counts what becomes of them.
class Crowd : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<>;
  struct Counts {
    std::atomic<int> parsed{0};
    std::atomic<int> refused{0};
  };
  Crowd(BodyParsers& parsers, int bodies, Counts& counts)
      : parsers_(parsers), bodies_(bodies), counts_(counts) {}
  void on_start() {
    for (int i = 0; i < bodies_; ++i) launch(hand_in());
  }

 private:
  runtime::Task<void> hand_in() {
    std::string body = filled(R"({"prompt":"x","else":[[])", ",[]", "]}", 70'000);
    auto parsing = parsers_.parse({.endpoint = endpoint_, .body = std::move(body)}, runtime::CancelToken());
    const std::optional<ParsedCall> parsed = co_await parsing;
    const auto* error = parsed ? std::get_if<ApiError>(&*parsed) : nullptr;
    if (parsed && std::holds_alternative<std::unique_ptr<GenerationCall>>(*parsed)) ++counts_.parsed;
    if (error != nullptr && error->status == 503 && error->retry_after) ++counts_.refused;
  }

  const std::shared_ptr<const Endpoint> endpoint_ =
      RouteTable(all_apis()).find("/v1/completions", "POST").endpoint;
  BodyParsers& parsers_;
  const int bodies_;
  Counts& counts_;
};

TEST(HttpHostile, MoreLargeBodiesThanCanWaitAreRefused) {
  constexpr int kBodies = 1000;
  runtime::System system({.workers = 1});
  BodyParsers parsers(system, 0, {});
  Crowd::Counts counts;
  system.spawn<Crowd>({}, parsers, kBodies, counts);
  EXPECT_TRUE(eventually([&] { return counts.parsed + counts.refused == kBodies; }));
  EXPECT_GE(counts.parsed, 256);  // as many as may wait
  EXPECT_GT(counts.refused, 0);
  system.stop();
}

}  // namespace
}  // namespace reprise::protocol
