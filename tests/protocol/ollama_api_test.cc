// Ollama's API over real sockets.

#include <gtest/gtest.h>

#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

struct OllamaServed : Served {
  explicit OllamaServed(HttpOptions options = {}) : Served(std::move(options)) {
    service.set_chat_template("<think>\n\n</think>\n\n<tool_call>{{ tool_call | tojson }}</tool_call>");
  }
};

std::vector<Json> lines_of(const std::string& body) {
  std::vector<Json> lines;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find('\n', at);
    EXPECT_NE(end, std::string::npos) << "a line that does not end";
    if (end == std::string::npos) break;
    lines.push_back(parsed(body.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

std::string ollama_chat(const std::string& words, const std::string& more = "") {
  return R"({"model":"fake:latest","messages":[{"role":"user","content":")" + words + R"("}])" + more + "}";
}

const Json& message_of(const Json& line) {
  return *line.find_object("message");
}

TEST(OllamaApi, WhatIsServed) {
  OllamaServed served;
  HttpClient client(served.port());
  EXPECT_TRUE(parsed(client.get("/api/version").body).find_string("version")->starts_with("0."));
  const Json tags = parsed(client.get("/api/tags").body);
  const Json& model = tags.find_array("models")->front();
  EXPECT_EQ(*model.find_string("model"), "fake");
  EXPECT_EQ(*model.find_string("modified_at"), "2023-11-14T22:13:20Z");
  EXPECT_EQ(parsed(client.get("/api/ps").body).find_array("models")->size(), 1u);
  const Json shown = parsed(client.post("/api/show", R"({"model":"fake:latest"})").body);
  EXPECT_EQ(shown.find("capabilities")->dump(), R"(["completion","tools","thinking"])");
  EXPECT_EQ(shown.find_object("model_info")->find("scripted.context_length")->as_int(), 4096);
  const ClientResponse unknown = client.post("/api/show", R"({"name":"other"})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(*parsed(unknown.body).find_string("error"), "model 'other' not found");
  EXPECT_EQ(client.post("/api/show", "{}").status, 400);
}

TEST(OllamaApi, AChatIsAStreamOfLines) {
  OllamaServed served;
  HttpClient client(served.port());
  const ClientResponse response = client.post("/api/chat", ollama_chat("hi"));
  ASSERT_EQ(response.status, 200);
  EXPECT_TRUE(response.has("Content-Type: application/x-ndjson"));
  const std::vector<Json> lines = lines_of(response.body);
  std::string text;
  for (const Json& line : lines) text += *message_of(line).find_string("content");
  EXPECT_EQ(text, "Hello, world!");
  const Json& last = lines.back();
  EXPECT_EQ(last.find("done")->dump(), "true");
  EXPECT_EQ(*last.find_string("done_reason"), "stop");
  EXPECT_EQ(last.find("prompt_eval_count")->as_int(), 9);
  EXPECT_EQ(last.find("eval_count")->as_int(), 4);
  EXPECT_EQ(last.find("eval_duration")->as_int(), 8'000'000);
  EXPECT_EQ(served.service.requests().back().model, "fake");
}

TEST(OllamaApi, ASilentStreamIsKeptAwakeByBlanks) {
  OllamaServed served({.sse_keep_alive = std::chrono::milliseconds(20)});
  HttpClient client(served.port());
  client.send(HttpClient::post_text("/api/chat", ollama_chat("wait in the queue")));
  ASSERT_TRUE(client.read_until("Content-Type: application/x-ndjson")) << "before there is a line";
  served.service.release();
  const std::vector<Json> lines = lines_of(client.read_response().body);
  EXPECT_EQ(lines.back().find("done")->dump(), "true");
}

TEST(OllamaApi, ThinkingAndCalls) {
  OllamaServed served;
  HttpClient client(served.port());
  const Json thought =
      parsed(client.post("/api/chat", ollama_chat("think", R"(,"stream":false,"think":true)")).body);
  EXPECT_EQ(*message_of(thought).find_string("thinking"), "Let me see.");
  EXPECT_EQ(*message_of(thought).find_string("content"), "Here it is.");
  const std::string tools =
      R"(,"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object"}}}])";
  const std::string called = R"([{"function":{"name":"get_weather","arguments":{"city":"Paris"}}}])";
  const Json whole =
      parsed(client.post("/api/chat", ollama_chat("call a tool", tools + R"(,"stream":false)")).body);
  EXPECT_EQ(message_of(whole).find("tool_calls")->dump(), called);
  const std::vector<Json> lines = lines_of(client.post("/api/chat", ollama_chat("call a tool", tools)).body);
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(message_of(lines[0]).find("tool_calls")->dump(), called) << "whole, in one line";
}

TEST(OllamaApi, CallsAndTheirResultsComeBack) {
  OllamaServed served;
  HttpClient client(served.port());
  const ClientResponse response = client.post(
      "/api/chat",
      R"({"model":"fake","stream":false,"messages":[{"role":"user","content":"a"},{"role":"assistant","thinking":"t",)"
      R"("tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]},{"role":"tool","tool_name":"f","content":"2"}]})");
  ASSERT_EQ(response.status, 200) << response.body;
  const Json messages = std::get<ChatPrompt>(served.service.requests().back().prompt).messages;
  EXPECT_EQ(*messages.as_array()[1].find_string("reasoning_content"), "t");
  EXPECT_EQ(*messages.as_array()[2].find_string("name"), "f");
  EXPECT_NE(messages.dump().find(R"("arguments":"{\"x\":1}")"), std::string::npos) << messages.dump();
}

TEST(OllamaApi, Generate) {
  OllamaServed served;
  HttpClient client(served.port());
  const std::string request =
      R"({"model":"fake","prompt":"hi","system":"s","stream":false,"format":"json","options":{"num_predict":5,"temperature":0.5,"stop":["x"],"num_ctx":4096}})";
  const Json whole = parsed(client.post("/api/generate", request).body);
  EXPECT_EQ(*whole.find_string("response"), "Hello, world!");
  const GenerateRequest asked = served.service.requests().back();
  EXPECT_EQ(asked.max_tokens, 5u);
  EXPECT_EQ(asked.sampling.temperature, 0.5);
  EXPECT_EQ(asked.rules.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(asked.rules.constraint.kind, grammar::Constraint::Kind::kJsonObject);
  EXPECT_EQ(std::get<ChatPrompt>(asked.prompt).messages.size(), 2u);
  client.post("/api/generate", R"({"model":"fake","prompt":"hi","raw":true})");
  EXPECT_EQ(std::get<std::string>(served.service.requests().back().prompt), "hi");
  client.post("/api/generate", R"({"model":"fake","prompt":"hi","suffix":"there"})");
  EXPECT_EQ(std::get<InfillPrompt>(served.service.requests().back().prompt).suffix, "there");
  const Json load = parsed(client.post("/api/generate", R"({"model":"fake"})").body);
  EXPECT_EQ(*load.find_string("done_reason"), "load");
  EXPECT_EQ(client.post("/api/generate", R"({"model":"other"})").status, 404);
}

TEST(OllamaApi, WhatCannotBeDoneIsRefusedByName) {
  OllamaServed served;
  HttpClient client(served.port());
  for (const char* more :
       {R"(,"images":["x"])", R"(,"options":{"dynatemp_range":1})", R"(,"options":{"temperature":"hot"})",
        R"(,"options":5)", R"(,"format":5)", R"(,"think":5)", R"(,"options":{"num_predict":0})"}) {
    const ClientResponse response = client.post("/api/chat", ollama_chat("hi", more));
    EXPECT_EQ(response.status, 400) << more;
    EXPECT_NE(parsed(response.body).find_string("error"), nullptr) << more;
  }
  EXPECT_EQ(client.post("/api/chat", R"({"messages":[{"role":"user","content":"a"}]})").status, 400);
  EXPECT_EQ(*parsed(client.post("/api/chat", ollama_chat("fail at once")).body).find_string("error"),
            "the queue is full");
  const ClientResponse failed = client.post("/api/chat", ollama_chat("fail later"));
  EXPECT_EQ(*lines_of(failed.body).back().find_string("error"), "the device is on fire");
}

}  // namespace
}  // namespace reprise::protocol
