// Streams over real sockets: framing, keep-alives, clients that disconnect or read slowly, errors before and
// within.

#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using namespace std::chrono_literals;

std::string chat(const std::string& words, const std::string& more = {}) {
  return R"({"model":"fake","messages":[{"role":"user","content":")" + words + "\"}]" + more + "}";
}

/// The JSON of each event, and all other text.
struct Events {
  std::vector<Json> json;
  int keep_alives = 0;
  bool done = false;
  std::string other;

  explicit Events(const std::string& body) {
    std::size_t at = 0;
    while (at < body.size()) {
      const std::size_t end = body.find("\n\n", at);
      if (end == std::string::npos) {
        other += body.substr(at);
        break;
      }
      const std::string event = body.substr(at, end - at);
      at = end + 2;
      if (event == "data: [DONE]") {
        done = true;
      } else if (event.starts_with("data: ")) {
        auto parsed = Json::parse(event.substr(6));
        if (parsed.ok()) {
          json.push_back(*parsed);
        } else {
          other += event;
        }
      } else if (event == ": keep-alive") {
        ++keep_alives;
      } else {
        other += event;
      }
    }
  }

  std::string content(std::int64_t choice = 0) const {
    std::string text;
    for (const Json& chunk : json) {
      for (const Json& item : *chunk.find_array("choices")) {
        if (item.find("index")->as_int() != choice) continue;
        if (const Json* delta = item.find_object("delta")) {
          if (const std::string* content = delta->find_string("content")) text += *content;
        }
      }
    }
    return text;
  }
};

TEST(HttpStream, AChatStreamsAsChunks) {
  Served served;
  HttpClient client(served.port());
  const ClientResponse response = client.post("/v1/chat/completions", chat("hi", kStream));
  ASSERT_EQ(response.status, 200);
  EXPECT_TRUE(response.whole);
  EXPECT_TRUE(response.has("Content-Type: text/event-stream"));
  const Events events(response.body);
  EXPECT_EQ(events.other, "");
  EXPECT_TRUE(events.done);
  EXPECT_EQ(events.content(), "Hello, world!");
  ASSERT_GE(events.json.size(), 6u);
  const Json& first = events.json.front();
  EXPECT_EQ(*first.find_string("object"), "chat.completion.chunk");
  EXPECT_EQ(*first.find_string("model"), "fake");
  EXPECT_EQ(*first.find_array("choices")->front().find_object("delta")->find_string("role"), "assistant");
  const Json& last = events.json.back();
  EXPECT_EQ(*last.find_array("choices")->front().find_string("finish_reason"), "stop");
  ASSERT_NE(last.find_object("reprise"), nullptr);
  EXPECT_EQ(last.find_object("reprise")->find("restored_tokens")->as_int(), 5);
  EXPECT_EQ(last.find("usage"), nullptr);
  // The connection stays open.
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST(HttpStream, UsageComesInAChunkOfItsOwn) {
  Served served;
  HttpClient client(served.port());
  const ClientResponse response = client.post(
      "/v1/chat/completions", chat("hi", kStream + R"(,"n":2,"stream_options":{"include_usage":true})"));
  const Events events(response.body);
  EXPECT_EQ(events.content(0), "Hello, world!");
  EXPECT_EQ(events.content(1), "Hello, world!");
  const Json& last = events.json.back();
  EXPECT_TRUE(last.find_array("choices")->empty());
  const Json* usage = last.find_object("usage");
  ASSERT_NE(usage, nullptr);
  EXPECT_EQ(usage->find("completion_tokens")->as_int(), 8);
  EXPECT_EQ(usage->find_object("prompt_tokens_details")->find("cached_tokens")->as_int(), 5);
  EXPECT_TRUE(events.json.front().find("usage")->is_null());
}

TEST(HttpStream, AnErrorBeforeAdmissionIsPlain) {
  Served served;
  HttpClient client(served.port());
  const ClientResponse response = client.post("/v1/chat/completions", chat("fail at once", kStream));
  EXPECT_EQ(response.status, 429);
  EXPECT_TRUE(response.has("Retry-After: 1"));
  EXPECT_TRUE(response.has("application/json"));
  EXPECT_NE(response.body.find("the queue is full"), std::string::npos);
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST(HttpStream, AnErrorAfterAdmissionComesInTheStream) {
  Served served;
  HttpClient client(served.port());
  const ClientResponse response = client.post("/v1/chat/completions", chat("fail later", kStream));
  EXPECT_EQ(response.status, 200);
  const Events events(response.body);
  EXPECT_TRUE(events.done);
  const Json* error = events.json.back().find_object("error");
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(*error->find_string("message"), "the device is on fire");
  EXPECT_EQ(*error->find_string("type"), "server_error");
}

TEST(HttpStream, AQueuedRequestIsKeptAwake) {
  Served served({.sse_keep_alive = 20ms});
  HttpClient client(served.port());
  client.send(HttpClient::post_text("/v1/chat/completions", chat("wait in the queue", kStream)));
  ASSERT_TRUE(client.read_until(": keep-alive\n\n"));
  served.service.release();
  const ClientResponse response = client.read_response();
  const Events events(response.body);
  EXPECT_GE(events.keep_alives, 1);
  EXPECT_EQ(events.content(), "Hello, world!");
}

TEST(HttpStream, NothingGoesOutBeforeAdmission) {
  Served served({.sse_keep_alive = 10min});
  HttpClient client(served.port());
  served.service.set_script([](const GenerateRequest&) {
    return Script{Pause{30ms}, Event(Failed{{ErrorKind::kUnavailable, "the model is loading"}})};
  });
  const ClientResponse response = client.post("/v1/chat/completions", chat("hi", kStream));
  EXPECT_EQ(response.status, 503);
  EXPECT_TRUE(response.has("Retry-After"));
}

TEST(HttpStream, AClientThatLeavesFreesItsRequest) {
  Served served;
  for (const char* words : {"wait in the queue", "go on for ever"}) {
    for (const std::string& stream : {kStream, std::string()}) {
      const int left = served.service.left();
      HttpClient client(served.port());
      client.send(HttpClient::post_text("/v1/chat/completions", chat(words, stream)));
      ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
      client.close();
      EXPECT_TRUE(eventually([&] { return served.service.live() == 0; })) << words << stream;
      EXPECT_EQ(served.service.left(), left + 1);
    }
  }
}

TEST(HttpStream, ASlowClientHoldsUpItselfAlone) {
  Served served;
  HttpClient slow(served.port(), /*receive_buffer=*/4096);
  slow.send(HttpClient::post_text("/v1/chat/completions", chat("go on for ever", kStream)));
  int written = -1;  // until the buffers in between are full
  ASSERT_TRUE(eventually([&] {
    const int before = std::exchange(written, served.service.written());
    std::this_thread::sleep_for(50ms);
    return written > 0 && written == before;
  }));
  EXPECT_EQ(served.service.live(), 1);
  HttpClient other(served.port());
  EXPECT_EQ(other.post("/v1/chat/completions", chat("hi")).status, 200);
  slow.close();
  EXPECT_TRUE(eventually([&] { return served.service.live() == 0; }));
}

TEST(HttpStream, AClientThatTakesNothingIsGivenUp) {
  Served served({.write_timeout = 100ms});
  HttpClient slow(served.port(), /*receive_buffer=*/4096);
  slow.send(HttpClient::post_text("/v1/chat/completions", chat("go on for ever", kStream)));
  EXPECT_TRUE(eventually([&] { return served.service.left() == 1; }));
}

TEST(HttpStream, HttpOneZeroEndsWithTheConnection) {
  Served served;
  HttpClient client(served.port());
  const std::string body = chat("hi", kStream);
  client.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  const ClientResponse response = client.read_response();
  EXPECT_TRUE(response.head.starts_with("HTTP/1.0 200"));
  EXPECT_FALSE(response.has("Transfer-Encoding"));
  const Events events(response.body);
  EXPECT_TRUE(events.done);
  EXPECT_EQ(events.content(), "Hello, world!");
}

TEST(HttpStream, PipelinedRequestsAreAnsweredInOrder) {
  Served served;
  HttpClient client(served.port());
  std::string all;
  for (int i = 0; i < 20; ++i) {
    all += i % 2 == 0 ? HttpClient::post_text("/v1/chat/completions", chat("hi", kStream))
                      : "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  ASSERT_TRUE(client.send(all));
  for (int i = 0; i < 20; ++i) {
    const ClientResponse response = client.read_response();
    ASSERT_EQ(response.status, 200);
    EXPECT_EQ(response.has("text/event-stream"), i % 2 == 0);
  }
}

TEST(HttpStream, CompletionsStreamTextIdsAndLogprobs) {
  Served served;
  HttpClient client(served.port());
  const ClientResponse response =
      client.post("/v1/completions",
                  R"({"prompt":[1,2,3],"stream":true,"max_tokens":4,"logprobs":2,"return_token_ids":true})");
  const Events events(response.body);
  EXPECT_TRUE(events.done);
  std::string text;
  std::vector<std::int64_t> ids, offsets;
  for (const Json& chunk : events.json) {
    const Json& choice = chunk.find_array("choices")->front();
    text += *choice.find_string("text");
    for (const Json& id : *choice.find_array("token_ids")) ids.push_back(id.as_int());
    if (const Json* logprobs = choice.find_object("logprobs")) {
      for (const Json& offset : *logprobs->find_array("text_offset")) offsets.push_back(offset.as_int());
    }
  }
  EXPECT_EQ(text, "Hello, world!");
  EXPECT_EQ(ids, (std::vector<std::int64_t>{100, 101, 102, 103}));
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 3, 7, 10}));
}

TEST(HttpStream, SeveralPromptsInterleave) {
  Served served;
  served.service.set_script([](const GenerateRequest& request) {
    const bool first = std::get<TokenList>(request.prompt).size() == 1;
    Script script = reply_with(request, {first ? "first " : "second ", "reply"});
    if (first) script.insert(script.begin() + 3, Hold{});  // after its first word
    return script;
  });
  HttpClient client(served.port());
  client.send(HttpClient::post_text("/v1/completions",
                                    R"({"prompt":[[1],[2,3]],"stream":true,"return_token_ids":true,)"
                                    R"("stream_options":{"include_usage":true}})"));
  ASSERT_TRUE(client.read_until(R"("index":1,"text":"","logprobs":null,"finish_reason":"stop")"))
      << "the second is not held up by the first";
  served.service.release();
  const ClientResponse response = client.read_response();
  const Events events(response.body);
  ASSERT_TRUE(events.done);
  std::string texts[2], prompts[2];
  for (const Json& chunk : events.json) {
    if (chunk.find_array("choices")->empty()) continue;
    const Json& choice = chunk.find_array("choices")->front();
    const auto index = static_cast<std::size_t>(choice.find("index")->as_int());
    ASSERT_LT(index, 2u);
    texts[index] += *choice.find_string("text");
    if (const Json* ids = choice.find("prompt_token_ids")) prompts[index] += ids->dump();
  }
  EXPECT_EQ(texts[0], "first reply");
  EXPECT_EQ(texts[1], "second reply");
  EXPECT_EQ(prompts[0], "[1]") << "told once";
  EXPECT_EQ(prompts[1], "[2,3]");
  EXPECT_EQ(events.json.back().find("usage")->find("completion_tokens")->as_int(), 4);
}

TEST(HttpStream, AClientThatLeavesFreesAllItsPrompts) {
  Served served;
  {
    HttpClient client(served.port());
    client.send(HttpClient::post_text(
        "/v1/completions",
        R"({"prompt":["go on for ever","go on for ever","wait in the queue"],"stream":true})"));
    ASSERT_TRUE(client.read_until("word"));
    ASSERT_TRUE(eventually([&] { return served.service.live() == 3; }));
  }
  EXPECT_TRUE(eventually([&] { return served.service.live() == 0; }));
  EXPECT_EQ(served.service.left(), 3);
}

TEST(HttpStream, VanishedClientsLeaveNoRequests) {
  Served served;
  constexpr int kClients = 60;
  for (int i = 0; i < kClients; ++i) {
    HttpClient client(served.port());
    const std::string text = HttpClient::post_text("/v1/chat/completions", chat("go on for ever", kStream));
    client.send(std::string_view(text).substr(0, text.size() * static_cast<std::size_t>(i) / kClients + 1));
    if (i % 3 == 0) continue;
    client.send(std::string_view(text).substr(text.size() * static_cast<std::size_t>(i) / kClients + 1));
    if (i % 3 == 1) client.read_until("word");
  }
  EXPECT_TRUE(eventually([&] { return served.service.live() == 0; }));
  HttpClient client(served.port());
  EXPECT_TRUE(eventually(
      [&] { return client.get("/metrics").body.find("reprise_http_connections 1") != std::string::npos; }));
  EXPECT_NE(client.get("/metrics").body.find("reprise_sequences 0"), std::string::npos);
}

}  // namespace
}  // namespace reprise::protocol
