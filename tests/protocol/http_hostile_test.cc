// Bodies that are slow to process: they do not delay other clients' answers.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "protocol/apis.h"
#include "protocol/http/bodies.h"
#include "protocol/http/routes.h"
#include "tests/base/colliding_keys.h"
#include "tests/fuzz/mutator.h"
#include "tests/protocol/served.h"
#include "tests/sanitized.h"
#include "tests/thorough.h"

namespace reprise::protocol {
namespace {

// The default limit is 32 MiB.
const std::size_t kBodyBytes = thorough() ? 32u << 20 : kSanitized ? 1u << 20 : 4u << 20;

/// Returns `open`, as many `part`s as fit, and `close`.
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
  const char* answer;  // a substring of it
};

std::vector<Hostile> hostile_bodies() {
  const char* completions = "/v1/completions";
  const char* chat = "/v1/chat/completions";
  std::vector<Hostile> all = {
      {"keys that collide", completions,
       [] { return R"({"prompt":"x",)" + colliding_members(thorough() ? 60'000 : 20'000) + '}'; }, "Hello"},
      {"many keys", completions, [] { return many_keys(90'000); }, "Hello"},
      {"too many keys", completions, [] { return many_keys(thorough() ? 1'900'000 : 200'000); },
       "more than 100000 members of objects"},
      {"arrays in arrays", completions, [] { return std::string(kBodyBytes, '['); }, "nested deeper than 64"},
      {"objects in objects", chat, [] { return filled("", R"({"a":)", ""); }, "nested deeper than 64"},
      {"escapes", completions, [] { return filled(R"({"prompt":")", R"(\u0061)", "\"}"); }, "Hello"},
      {"bad escapes", "/tokenize", [] { return filled(R"({"content":")", R"(\u0061)", "\\x\"}"); },
       "an escape that JSON"},
      {"an open string", "/tokenize", [] { return filled(R"({"content":")", "aaaaaaaa", ""); },
       "a string is not closed"},
      {"token ids", completions,
       [] { return filled(R"({"prompt":[1)", ",1", "]}", kSanitized ? 400'000 : 4'000'000); }, "Hello"},
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
  if (!kSanitized) {  // it would take half a minute
    all.push_back({"numbers", completions, [] { return filled(R"({"prompt":[1)", ",1", "]}", 5'000'000); },
                   "more than 2250000 values"});
  }
  return all;
}

TEST(HttpHostile, OthersAreAnsweredMeanwhile) {
  Served served;
  for (const Hostile& hostile : hostile_bodies()) {
    const std::string body = hostile.body();
    std::atomic<bool> answered{false};
    std::thread attacker([&] {
      HttpClient client(served.port());
      const ClientResponse response = client.post(hostile.path, body);
      EXPECT_TRUE(response.whole) << hostile.what;
      EXPECT_NE(response.body.find(hostile.answer), std::string::npos)
          << hostile.what << ": " << response.body.substr(0, 300);
      EXPECT_LT(response.body.size(), 10'000u);
      answered = true;
    });
    do {
      HttpClient client(served.port());
      EXPECT_EQ(client.get("/health").status, 200);
      EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"hi"})").status, 200);
    } while (!answered);
    attacker.join();
  }
}

TEST(HttpHostile, AServerOutlivesWhatItIsSent) {
  const std::vector<std::string> requests = {
      "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
      "chunked\r\n\r\n8\r\n{\"prompt\r\n9;x=y\r\n\":[1,2]}  \r\n"
      "0\r\n\r\n",
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: "
      "67\r\n\r\n"
      "{\"messages\":[{\"role\":\"user\",\"content\":\"go on for ever\"}],\"stream\":true}"};
  HttpOptions options;
  options.header_timeout = options.body_timeout = std::chrono::milliseconds(200);
  Served served(options);
  fuzz::Mutator damaged(
      99, {"\r\n", "\r\n\r\n", "0\r\n\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"});
  for (int i = 0; i < 200; ++i) {
    HttpClient client(served.port());
    const std::string& request = requests[damaged.below(requests.size())];
    client.send(i % 4 == 0 ? request : damaged(request));
    if (i % 2 == 0) client.read_until("\r\n");
  }
  HttpClient client(served.port());
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_TRUE(eventually([&] { return served.service.live() == 0; }));
  EXPECT_TRUE(eventually(
      [&] { return client.get("/metrics").body.find("reprise_http_connections 1\n") != std::string::npos; }));
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
  // Two turns each: queueing and parsing. A turn is counted after its answer was sent.
  EXPECT_TRUE(eventually([&] { return parsed_elsewhere() == before + 12; })) << parsed_elsewhere() - before;
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

/// Submits many bodies at once, and counts the outcomes.
class Crowd : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<>;
  struct Counts {
    std::atomic<int> parsed{0};
    std::atomic<int> refused{0};
    std::atomic<int> over_share{0};
  };
  Crowd(BodyParsers& parsers, int bodies, Counts& counts, std::string tenant = {})
      : parsers_(parsers), bodies_(bodies), counts_(counts), tenant_(std::move(tenant)) {}
  void on_start() {
    for (int i = 0; i < bodies_; ++i) launch(hand_in());
  }

 private:
  runtime::Task<void> hand_in() {
    std::string body = filled(R"({"prompt":"x","else":[[])", ",[]", "]}", kSanitized ? 7'000 : 70'000);
    auto parsing = parsers_.parse({.endpoint = endpoint_, .body = std::move(body), .tenant = tenant_},
                                  runtime::CancelToken());
    const std::optional<ParsedCall> parsed = co_await parsing;
    const auto* error = parsed ? std::get_if<Error>(&*parsed) : nullptr;
    if (parsed && std::holds_alternative<std::unique_ptr<GenerationCall>>(*parsed)) ++counts_.parsed;
    if (error != nullptr && shown(*error).status == 503 && error->retry_after) ++counts_.refused;
    if (error != nullptr && shown(*error).status == 429 && error->retry_after) ++counts_.over_share;
  }

  const std::shared_ptr<const Endpoint> endpoint_ =
      RouteTable(all_apis()).find("/v1/completions", "POST").endpoint;
  BodyParsers& parsers_;
  const int bodies_;
  Counts& counts_;
  const std::string tenant_;
};

TEST(HttpHostile, MoreLargeBodiesThanCanWaitAreRefused) {
  constexpr int kBodies = 1000;
  runtime::System system({.workers = 1});
  BodyParsers parsers(system, 0, {});
  Crowd::Counts counts;
  system.spawn<Crowd>({}, parsers, kBodies, counts);
  EXPECT_TRUE(eventually([&] { return counts.parsed + counts.refused == kBodies; }));
  EXPECT_GE(counts.parsed, 256);  // the queue's capacity
  EXPECT_GT(counts.refused, 0);
  system.stop();
}

TEST(HttpHostile, OneTenantsBodiesDoNotStarveOthers) {
  runtime::System system({.workers = 1});
  BodyParsers parsers(system, 0, {});
  constexpr int kGreedy = 200;  // below the mailbox's capacity, above a tenant's share
  Crowd::Counts greedy;
  system.spawn<Crowd>({}, parsers, kGreedy, greedy, "greedy");
  Crowd::Counts modest;
  system.spawn<Crowd>({}, parsers, 20, modest, "modest");
  EXPECT_TRUE(eventually([&] { return greedy.parsed + greedy.over_share + greedy.refused == kGreedy; }));
  EXPECT_TRUE(eventually([&] { return modest.parsed == 20; }));
  EXPECT_GE(greedy.parsed, 128);
  system.stop();
}

}  // namespace
}  // namespace reprise::protocol
