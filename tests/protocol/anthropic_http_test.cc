// Anthropic's Messages over HTTP: streams of named events, whole answers, errors in Anthropic's format.

#include <gtest/gtest.h>

#include "tests/protocol/answers.h"
#include "tests/protocol/named_events.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using namespace std::chrono_literals;

const std::string kMessagesPath = "/v1/messages";
const std::string kWeatherTool = R"(,"tools":[{"name":"get_weather","input_schema":{"type":"object"}}])";

std::string message_body(const std::string& words, const std::string& more = {}) {
  return R"({"model":"fake","max_tokens":64,"messages":[{"role":"user","content":")" + words + "\"}]" + more +
         "}";
}

struct ServedMessages : Served {
  explicit ServedMessages(HttpOptions options = {}) : Served(std::move(options)) {
    service.set_chat_template("<think>\n\n</think>\n\n<tool_call>{{ tool_call | tojson }}</tool_call>");
  }
  ClientResponse post(const std::string& body, const std::string& headers = {}) {
    HttpClient client(port());
    return client.post(kMessagesPath, body, headers);
  }
};

const Json& at(const Json& value, std::initializer_list<std::string_view> path) {
  const Json* here = &value;
  for (const std::string_view name : path) {
    here = here->find(name);
    if (here == nullptr) throw std::runtime_error("no member " + std::string(name) + " in " + value.dump());
  }
  return *here;
}

TEST(AnthropicHttp, AStreamHasItsEventsInOrder) {
  ServedMessages served;
  const ClientResponse response = served.post(message_body("hi", kStream));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_TRUE(response.has("Content-Type: text/event-stream"));
  const auto events = named_events(response.body);
  EXPECT_EQ(
      names_of(events),
      "message_start content_block_start content_block_delta content_block_stop message_delta message_stop");
  for (const NamedEvent& event : events) EXPECT_EQ(*event.data.find_string("type"), event.name);
  const Json& message = at(events.front().data, {"message"});
  EXPECT_TRUE(message.find_string("id")->starts_with("msg_"));
  EXPECT_EQ(*message.find_string("model"), "fake");
  EXPECT_EQ(
      at(message, {"usage"}).dump(),
      R"({"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":5,"output_tokens":0})");
  std::string text;
  for (const NamedEvent& event : events) {
    if (event.name == "content_block_delta") text += at(event.data, {"delta", "text"}).as_string();
  }
  EXPECT_EQ(text, "Hello, world!");
  const Json& delta = events[events.size() - 2].data;
  EXPECT_EQ(at(delta, {"delta"}).dump(), R"({"stop_reason":"end_turn","stop_sequence":null})");
  EXPECT_EQ(at(delta, {"usage", "output_tokens"}).as_int(), 4);
  EXPECT_EQ(at(delta, {"reprise", "restored_tokens"}).as_int(), 5);
}

TEST(AnthropicHttp, ThinkingIsABlockWithASignature) {
  ServedMessages served;
  const auto events = named_events(served.post(message_body("think", kStream)).body);
  std::string thought, text, kinds, signature;
  for (const NamedEvent& event : events) {
    if (event.name == "content_block_start") {
      kinds += at(event.data, {"content_block", "type"}).as_string() +
               std::to_string(at(event.data, {"index"}).as_int());
    }
    if (event.name != "content_block_delta") continue;
    const Json& delta = at(event.data, {"delta"});
    if (const std::string* more = delta.find_string("thinking")) thought += *more;
    if (const std::string* more = delta.find_string("signature")) signature += *more;
    if (const std::string* more = delta.find_string("text")) text += *more;
  }
  EXPECT_EQ(kinds, "thinking0text1");
  EXPECT_EQ(thought, "Let me see.");
  EXPECT_EQ(text, "Here it is.");
  EXPECT_FALSE(signature.empty());
  const auto whole = Json::parse(served.post(message_body("think")).body);
  ASSERT_TRUE(whole.ok());
  const std::string* whole_signature = whole->find_array("content")->front().find_string("signature");
  ASSERT_NE(whole_signature, nullptr);
  EXPECT_NE(*whole_signature, signature) << "of another reply";
  EXPECT_EQ(whole->find("content")->dump(), R"([{"type":"thinking","thinking":"Let me see.","signature":")" +
                                                *whole_signature +
                                                R"("},{"type":"text","text":"Here it is."}])");
}

TEST(AnthropicHttp, ACallIsAToolUseBlock) {
  ServedMessages served;
  const auto events = named_events(served.post(message_body("call a tool", kWeatherTool + kStream)).body);
  EXPECT_EQ(
      names_of(events),
      "message_start content_block_start content_block_delta content_block_stop message_delta message_stop");
  std::string json;
  for (const NamedEvent& event : events) {
    if (event.name == "content_block_start") {
      EXPECT_EQ(at(event.data, {"content_block", "type"}).as_string(), "tool_use");
      EXPECT_EQ(at(event.data, {"content_block", "name"}).as_string(), "get_weather");
      EXPECT_EQ(at(event.data, {"content_block", "input"}).dump(), "{}");
    }
    if (event.name == "content_block_delta") json += at(event.data, {"delta", "partial_json"}).as_string();
  }
  EXPECT_EQ(Json::parse(json)->dump(), R"({"city":"Paris"})");
  EXPECT_EQ(at(events[events.size() - 2].data, {"delta", "stop_reason"}).as_string(), "tool_use");
  const auto whole = Json::parse(served.post(message_body("call a tool", kWeatherTool)).body);
  ASSERT_TRUE(whole.ok());
  const Json& block = whole->find_array("content")->front();
  EXPECT_EQ(block.find("input")->dump(), R"({"city":"Paris"})");
  EXPECT_EQ(*whole->find_string("stop_reason"), "tool_use");
}

TEST(AnthropicHttp, StopReasons) {
  ServedMessages served;
  served.service.set_script([](const GenerateRequest& request) {
    Script script = reply_with(request, {"a"});
    for (ScriptStep& step : script) {
      auto* event = std::get_if<Event>(&step);
      if (auto* finished = event == nullptr ? nullptr : std::get_if<Finished>(event)) {
        if (!request.rules.stop.empty()) finished->stop = request.rules.stop.front();
        if (request.rules.stop.empty()) finished->reason = FinishReason::kLength;
      }
    }
    return script;
  });
  const auto cut = Json::parse(served.post(message_body("hi")).body);
  EXPECT_EQ(*cut->find_string("stop_reason"), "max_tokens");
  const auto stopped = Json::parse(served.post(message_body("hi", R"(,"stop_sequences":["END"])")).body);
  EXPECT_EQ(*stopped->find_string("stop_reason"), "stop_sequence");
  EXPECT_EQ(*stopped->find_string("stop_sequence"), "END");
}

TEST(AnthropicHttp, TruncatedCallIsReturnedAsGenerated) {
  ServedMessages served;
  served.service.set_script([](const GenerateRequest& request) {
    return reply_with(request, {"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par"},
                      FinishReason::kLength);
  });
  const auto whole = Json::parse(served.post(message_body("hi", kWeatherTool)).body);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(*whole->find_string("stop_reason"), "max_tokens");
  const Json& block = whole->find_array("content")->front();
  EXPECT_EQ(block.find("input")->dump(), R"({"INVALID_JSON":"{\"city\": \"Par"})");
}

TEST(AnthropicHttp, UsageCountsCachedTokens) {
  ServedMessages served;
  served.service.set_script([](const GenerateRequest& request) {
    Script script = reply_with(request, {"a"});
    std::get<Done>(std::get<Event>(script.back())).usage.cache.kept_tokens = 8;
    return script;
  });
  const auto whole = Json::parse(served.post(message_body("hi")).body);
  EXPECT_EQ(
      whole->find("usage")->dump(),
      R"({"input_tokens":1,"cache_creation_input_tokens":3,"cache_read_input_tokens":5,"output_tokens":1})");
}

TEST(AnthropicHttp, PingsComeInPrefill) {
  HttpOptions options;
  options.sse_keep_alive = 5ms;
  ServedMessages served(options);
  served.service.set_script([](const GenerateRequest& request) {
    Script script = reply_with(request, {"a"});
    script.insert(script.begin() + 1, Hold{});  // after Admitted
    return script;
  });
  HttpClient client(served.port());
  client.send(HttpClient::post_text(kMessagesPath, message_body("hi", kStream)));
  ASSERT_TRUE(client.read_until("event: ping"));
  EXPECT_NE(client.unread().find("\"input_tokens\":9"), std::string::npos)
      << "the start has the prompt's length";
  served.service.release();
  const auto events = named_events(client.read_response().body);
  EXPECT_EQ(events.front().name, "message_start");
  int starts = 0;
  for (const NamedEvent& event : events) starts += event.name == "message_start" ? 1 : 0;
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(events.back().name, "message_stop");
}

TEST(AnthropicHttp, ErrorsHaveAnthropicsShape) {
  HttpOptions options;
  ASSERT_EQ(options.keys.add("secret-key"), "");
  options.body_bytes = 100'000;
  ServedMessages served(options);
  const std::string key = "x-api-key: secret-key\r\n";
  const auto problem = [&](const ClientResponse& response) {
    const auto body = Json::parse(response.body);
    if (!body.ok() || *body->find_string("type") != "error") return "no error: " + response.body;
    return std::to_string(response.status) + " " + at(*body, {"error", "type"}).as_string();
  };
  EXPECT_EQ(problem(served.post(message_body("hi"))), "401 authentication_error");
  EXPECT_EQ(served.post(message_body("hi"), key).status, 200);
  EXPECT_EQ(served.post(message_body("hi"), "Authorization: Bearer secret-key\r\n").status, 200);
  EXPECT_EQ(problem(served.post("{", key)), "400 invalid_request_error");
  for (const std::string& more : {kStream, std::string()}) {
    const ClientResponse early = served.post(message_body("fail at once", more), key);
    EXPECT_EQ(problem(early), "429 rate_limit_error");
    EXPECT_EQ(retry_after_of(early), 1);
  }
  EXPECT_EQ(problem(served.post(message_body("fail later"), key)), "500 api_error")
      << "in one piece it has a status";
  EXPECT_EQ(problem(served.post(message_body(std::string(200'000, 'x')), key)), "413 request_too_large");
  HttpClient client(served.port());
  EXPECT_EQ(problem(client.get(kMessagesPath, key)), "405 invalid_request_error");
  EXPECT_EQ(problem(client.post(kMessagesPath + "/batches", "{}", key)), "404 not_found_error");
  const auto fails_with = [&](ErrorKind code) {
    served.service.set_script([code](const GenerateRequest&) {
      return Script{Event(Failed{{.kind = code, .message = "the prompt has 9 tokens"}})};
    });
    return served.post(message_body("hi"), key);
  };
  EXPECT_EQ(problem(fails_with(ErrorKind::kUnknownModel)), "404 not_found_error");
  EXPECT_EQ(problem(fails_with(ErrorKind::kUnavailable)), "529 overloaded_error");
  EXPECT_EQ(problem(fails_with(ErrorKind::kInternal)), "500 api_error");
  const ClientResponse long_one = fails_with(ErrorKind::kTooLong);
  EXPECT_NE(long_one.body.find("prompt is too long"), std::string::npos);
}

TEST(AnthropicHttp, AnErrorInTheStreamIsAnEvent) {
  ServedMessages served;
  const auto events = named_events(served.post(message_body("fail later", kStream)).body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().name, "error");
  EXPECT_EQ(at(events.back().data, {"error", "type"}).as_string(), "api_error");
}

TEST(AnthropicHttp, WhatTheServerRefusesHasItsShapeToo) {
  HttpOptions options;
  options.requests = 1;
  ServedMessages served(options);
  HttpClient busy(served.port());
  busy.send(HttpClient::post_text(kMessagesPath, message_body("wait half way", kStream)));
  ASSERT_TRUE(busy.read_until("Hel"));
  const ClientResponse refused = served.post(message_body("hi"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.find("rate_limit_error"), std::string::npos) << refused.body;
  served.server.stop(10ms);
  const std::string rest = busy.read_all();
  EXPECT_NE(rest.find("event: error\ndata: {\"type\":\"error\""), std::string::npos) << rest;
}

TEST(AnthropicHttp, ACallCanBeForced) {
  ServedMessages served;
  const std::string forced = kWeatherTool + R"(,"tool_choice":{"type":"tool","name":"get_weather"})";
  EXPECT_EQ(served.post(message_body("hi", forced)).status, 200);
  const GenerateRequest request = served.service.requests().back();
  EXPECT_EQ(std::get<ChatPrompt>(request.prompt).reply_opening,
            "<tool_call>\n{\"name\": \"get_weather\", \"arguments\":");
  served.service.set_chat_template("{{ messages }}");
  const ClientResponse refused = served.post(message_body("hi", forced));
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("invalid_request_error"), std::string::npos) << refused.body;
}

TEST(AnthropicHttp, CountsTokens) {
  ServedMessages served;
  HttpClient client(served.port());
  const ClientResponse response =
      client.post("/v1/messages/count_tokens?beta=true",
                  R"({"model":"fake","messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(response.status, 200);
  // The scripted service renders to JSON and counts bytes.
  EXPECT_EQ(response.body, R"({"input_tokens":54})");
  const ClientResponse refused = client.post("/v1/messages/count_tokens", R"({"messages":[]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("invalid_request_error"), std::string::npos);
  served.service.set_ask_failure(runtime::ErrorCode::kStopped);
  EXPECT_EQ(client.post("/v1/messages/count_tokens", message_body("hi")).status, 529)
      << "where others say 503";
}

}  // namespace
}  // namespace reprise::protocol
