// Bounds on what the server holds for clients, and the errors beyond them.

#include <gtest/gtest.h>

#include "protocol/http/bodies.h"
#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using namespace std::chrono_literals;

TEST(BodyBudget, LeasesAreGivenBack) {
  BodyBudget budget(100);
  {
    BodyLease first(budget);
    EXPECT_TRUE(first.grow_to(60));
    EXPECT_TRUE(first.grow_to(50)) << "never shrinks";
    EXPECT_EQ(budget.held(), 60u);
    BodyLease second(budget);
    EXPECT_FALSE(second.grow_to(41));
    EXPECT_TRUE(second.grow_to(40));
    EXPECT_FALSE(budget.has_capacity(1));
    BodyLease third(std::move(first));
    first.release();
    EXPECT_EQ(budget.held(), 100u) << "moved";
    second.release();
    EXPECT_TRUE(third.grow_to(100));
  }
  EXPECT_EQ(budget.held(), 0u);
}

TEST(HttpLimits, BodiesShareOneBudget) {
  HttpOptions options;
  options.body_bytes = 64 << 10;
  options.bodies_bytes = 100'000;
  Served served(options);
  const std::string body = R"({"prompt":"x"})" + std::string(60'000, ' ');
  const std::string post = HttpClient::post_text("/v1/completions", body);
  const auto held = [&](HttpClient& client) {
    const std::string page = client.get("/metrics").body;
    const std::string name = "\nreprise_http_body_bytes ";
    return std::atol(page.c_str() + page.find(name) + name.size());
  };

  HttpClient slow(served.port());
  slow.send(post.substr(0, post.size() - 1));
  HttpClient watcher(served.port());
  ASSERT_TRUE(eventually([&] { return held(watcher) >= 60'000; }));

  HttpClient declares(served.port());  // refused by its head
  declares.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000\r\n\r\n");
  const ClientResponse refused = declares.read_response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(code_of(refused), "server_busy");
  EXPECT_GE(retry_after_of(refused), 1);
  EXPECT_TRUE(refused.has("Connection: close"));

  HttpClient chunked(served.port());  // refused when it has sent too much
  chunked.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nc350\r\n" +
      body.substr(0, 50'000));
  EXPECT_EQ(code_of(chunked.read_response()), "server_busy");
  EXPECT_EQ(watcher.post("/v1/completions", R"({"prompt":"x"})").status, 200) << "small ones still fit";

  slow.send(post.substr(post.size() - 1));
  EXPECT_EQ(slow.read_response().status, 200);
  EXPECT_TRUE(eventually([&] { return held(watcher) == 0; }));
  EXPECT_EQ(watcher.post("/v1/completions", body).status, 200);
}

TEST(HttpLimits, ABodyIsGivenBackWhileItsReplyGoesOn) {
  Served served;
  HttpClient client(served.port());
  client.send(HttpClient::post_text("/v1/chat/completions", kWaitingChat));
  ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
  HttpClient watcher(served.port());
  EXPECT_NE(watcher.get("/metrics").body.find("\nreprise_http_body_bytes 0\n"), std::string::npos);
}

TEST(HttpLimits, ASlowBodyHasAnEndHoweverSteadilyItComes) {
  HttpOptions options;
  options.body_timeout = 10min;
  options.body_total_timeout = 100ms;
  Served served(options);
  HttpClient client(served.port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
  std::thread sender([&] {
    for (int i = 0; i < 1000 && client.send("x"); ++i) std::this_thread::sleep_for(5ms);
  });
  const ClientResponse response = client.read_response();
  EXPECT_EQ(response.status, 408);
  EXPECT_EQ(code_of(response), "body_timeout");
  client.shut_down_sending();
  sender.join();
}

TEST(HttpLimits, EventsWithoutTextDoNotStarveTheKeepAlive) {
  // Much longer than the time between two events.
  Served served({.sse_keep_alive = 500ms});
  served.service.set_script([](const GenerateRequest& request) {
    Script script = reply_with(request, {});
    script.resize(2);
    script.push_back(ForEver{Delta{0, "", {}}});
    return script;
  });
  HttpClient client(served.port());
  client.send(HttpClient::post_text("/v1/chat/completions",
                                    R"({"messages":[{"role":"user","content":"hi"}],"stream":true})"));
  EXPECT_TRUE(client.read_until(": keep-alive\n\n"));
  HttpClient other(served.port());
  EXPECT_EQ(other.get("/health").status, 200) << "nor anybody else";
}

TEST(HttpLimits, AnErrorThatQuotesBytesIsValidJson) {
  Served served;
  HttpClient client(served.port());
  const ClientResponse response = client.get("/v1/models/a%ff%c3b%ed%a0%80%f0%9f%98%80");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(error_field(response, "message"),
            "there is no model 'a\uFFFD\uFFFDb\uFFFD\uFFFD\uFFFD\U0001F600'; served: fake");
  served.service.set_script([](const GenerateRequest&) {
    return Script{Event(Failed{{.kind = ErrorKind::kInvalid, .message = "\xff", .param = "\xfe"}})};
  });
  const ClientResponse failed = client.post("/v1/completions", R"({"prompt":"x"})");
  EXPECT_EQ(error_field(failed, "param"), "\uFFFD");
}

TEST(HttpLimits, AsksThatFailSayWhetherToTryAgain) {
  Served served;
  served.service.set_chat_template("<tool_call>{{ tool_call | tojson }}</tool_call>");
  HttpClient client(served.port());
  const std::string forced =
      R"({"messages":[{"role":"user","content":"hi"}],"tool_choice":"required",)"
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]})";
  struct Case {
    runtime::ErrorCode code;
    int status;
    const char* word;
  };
  for (const Case& one : {Case{runtime::ErrorCode::kMailboxFull, 429, "overloaded"},
                          Case{runtime::ErrorCode::kDropped, 429, "overloaded"},
                          Case{runtime::ErrorCode::kDeadline, 429, "overloaded"},
                          Case{runtime::ErrorCode::kStopped, 503, "unavailable"},
                          Case{runtime::ErrorCode::kNoReply, 500, "internal_error"},
                          Case{runtime::ErrorCode::kFailed, 500, "internal_error"}}) {
    served.service.set_ask_failure(one.code);
    for (const auto& [path, body] : {std::pair<std::string, std::string>{"/tokenize", R"({"content":"a"})"},
                                     {"/detokenize", R"({"tokens":[1]})"},
                                     {"/apply-template", kChat},
                                     {"/v1/chat/completions", forced}}) {
      const ClientResponse response = client.post(path, body);
      EXPECT_EQ(response.status, one.status) << path;
      EXPECT_EQ(code_of(response), one.word) << path;
      EXPECT_EQ(retry_after_of(response) > 0, one.status != 500) << path;
    }
  }
  served.service.set_ask_failure(std::nullopt);
  EXPECT_EQ(client.post("/tokenize", R"({"content":"a"})").status, 200);
}

}  // namespace
}  // namespace reprise::protocol
