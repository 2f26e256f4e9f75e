// APIs that are not OpenAI's on the same server (tests/protocol/other_dialects.h): their requests, replies,
// streams and errors, wherever those arise.

#include <gtest/gtest.h>

#include "tests/protocol/answers.h"
#include "tests/protocol/other_dialects.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using namespace std::chrono_literals;

std::string say(const std::string& words, const std::string& more = {}) {
  return R"({"say":")" + words + "\"" + more + "}";
}

/// With the id, which is another for each request, as ID.
std::string without_id(std::string text) {
  constexpr std::string_view kPrefix = "\"say_";
  for (std::size_t at = text.find(kPrefix); at != std::string::npos; at = text.find(kPrefix, at + 1)) {
    const std::size_t begin = at + kPrefix.size();
    const std::size_t end = text.find('"', begin);
    EXPECT_EQ(end - begin, 24u) << text;
    text.replace(begin, end - begin, "ID");
  }
  return text;
}

/// Of the body, which is an object of texts.
std::string member(const ClientResponse& response, std::string_view name) {
  const Json json = parsed(response.body);
  const std::string* text = json.is_object() ? json.find_string(name) : nullptr;
  return text == nullptr ? "nothing" : *text;
}

const std::string kBegin = "event: begin\ndata: {\"id\":\"say_ID\",\"input\":9,\"number\":0}\n\n";

TEST(HttpDialects, EventsHaveNamesAndNumbers) {
  Served served({}, other_dialects());
  HttpClient client(served.port());
  const ClientResponse response = client.post("/named/say", say("hi", kStream));
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.whole);
  EXPECT_TRUE(response.has("Content-Type: text/event-stream; charset=utf-8\r\n")) << response.head;
  EXPECT_EQ(without_id(response.body), kBegin +
                                           "event: piece\ndata: {\"text\":\"Hel\",\"number\":1}\n\n"
                                           "event: piece\ndata: {\"text\":\"lo, \",\"number\":2}\n\n"
                                           "event: piece\ndata: {\"text\":\"wor\",\"number\":3}\n\n"
                                           "event: piece\ndata: {\"text\":\"ld!\",\"number\":4}\n\n"
                                           "event: end\ndata: {\"tokens\":4,\"number\":5}\n\n");
  EXPECT_EQ(client.post("/v1/chat/completions", kChat).status, 200) << "the connection goes on";
}

TEST(HttpDialects, AStreamCanBeJsonLines) {
  Served served({}, other_dialects());
  HttpClient client(served.port());
  const ClientResponse response = client.post("/lines", say("hi", kStream));
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.has("Content-Type: application/x-ndjson\r\n")) << response.head;
  EXPECT_EQ(response.body,
            "{\"text\":\"Hel\"}\n{\"text\":\"lo, \"}\n{\"text\":\"wor\"}\n{\"text\":\"ld!\"}\n"
            "{\"done\":true}\n");
}

TEST(HttpDialects, RepliesComeInOnePiece) {
  Served served({}, other_dialects());
  HttpClient client(served.port());
  const ClientResponse response = client.post("/named/say", say("hi"));
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.has("Content-Type: application/json\r\n")) << response.head;
  EXPECT_EQ(response.body, R"({"model":"fake","said":"Hello, world!","tokens":4})");
  EXPECT_EQ(client.post("/lines", say("hi")).body, response.body);
}

TEST(HttpDialects, AChatIsReadByTheModelsFormat) {
  Served served({}, other_dialects());
  served.service.set_chat_template("<think>\n\n</think>\n\n<tool_call>{{ tool_call | tojson }}</tool_call>");
  HttpClient client(served.port());
  EXPECT_EQ(client.post("/lines", say("think", kStream)).body,
            "{\"thought\":\"Let me\"}\n{\"thought\":\" see.\"}\n{\"text\":\"Here\"}\n"
            "{\"text\":\" it is.\"}\n{\"done\":true}\n");
  EXPECT_EQ(client.post("/lines", say("call a tool", kStream)).body,
            "{\"call\":\"get_weather\"}\n{\"done\":true}\n");
}

TEST(HttpDialects, ACallCanBeForced) {
  Served served({}, other_dialects());
  HttpClient client(served.port());
  const ClientResponse refused = client.post("/named/say", say("hi", R"(,"tool":"look")"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(member(refused, "problem"), "unsupported_parameter");
  served.service.set_chat_template("<tool_call>{{ tool_call | tojson }}</tool_call>");
  EXPECT_EQ(client.post("/named/say", say("hi", R"(,"tool":"look")")).status, 200);
  const GenerateRequest request = served.service.requests().at(0);
  const auto& chat = std::get<ChatPrompt>(request.prompt);
  EXPECT_EQ(chat.reply_opening, "<tool_call>\n{\"name\": \"look\", \"arguments\":");
}

TEST(HttpDialects, BodiesThatMakeNoSenseAreRefusedInTheShapeOfTheirApi) {
  Served served({}, other_dialects());
  HttpClient client(served.port());
  const ClientResponse named = client.post("/named/say", "{}");
  EXPECT_EQ(named.status, 400);
  EXPECT_EQ(named.body, R"({"type":"error","problem":"missing","words":"say: is required"})");
  const ClientResponse lines = client.post("/lines", R"({"say":7})");
  EXPECT_EQ(lines.status, 400);
  EXPECT_EQ(lines.body, R"({"wrong":"say: must be a string, not an integer"})");
  EXPECT_EQ(code_of(client.post("/v1/chat/completions", "{}")), "missing");
  EXPECT_TRUE(served.service.requests().empty());
}

TEST(HttpDialects, FailuresBeforeAStreamHaveTheirStatus) {
  Served served({}, other_dialects());
  HttpClient client(served.port());
  for (const std::string& more : {kStream, std::string()}) {
    const ClientResponse named = client.post("/named/say", say("fail at once", more));
    EXPECT_EQ(named.status, 429);
    EXPECT_EQ(retry_after_of(named), 1);
    EXPECT_EQ(named.body, R"({"type":"error","problem":"overloaded","words":"the queue is full"})");
    EXPECT_EQ(client.post("/lines", say("fail at once", more)).body, R"({"wrong":"the queue is full"})");
  }
}

TEST(HttpDialects, FailuresInAStreamAreEventsOfIt) {
  Served served({}, other_dialects());
  HttpClient client(served.port());
  EXPECT_EQ(without_id(client.post("/named/say", say("fail later", kStream)).body),
            kBegin +
                "event: piece\ndata: {\"text\":\"Hel\",\"number\":1}\n\n"
                "event: piece\ndata: {\"text\":\"lo, \",\"number\":2}\n\n"
                "event: error\ndata: {\"problem\":\"internal_error\",\"number\":3}\n\n");
  EXPECT_EQ(client.post("/lines", say("fail later", kStream)).body,
            "{\"text\":\"Hel\"}\n{\"text\":\"lo, \"}\n{\"wrong\":\"the device is on fire\"}\n");
  EXPECT_EQ(client.post("/named/say", say("fail later")).status, 500) << "in one piece it has a status";
}

TEST(HttpDialects, WhoeverWaitsSeesSignsOfLifeOfItsOwnKind) {
  HttpOptions options;
  options.sse_keep_alive = 20ms;
  Served served(options, other_dialects());
  HttpClient named(served.port());
  named.send(HttpClient::post_text("/named/say", say("wait in the queue", kStream)));
  ASSERT_TRUE(named.read_until("event: ping\ndata: {\"number\":1}\n\n")) << "before it is admitted";
  HttpClient lines(served.port());
  lines.send(HttpClient::post_text("/lines", say("wait half way", kStream)));
  ASSERT_TRUE(lines.read_until("{\"text\":\"Hel\"}\n"));
  std::this_thread::sleep_for(100ms);  // five times as long as it takes for a sign, of which there is none
  served.service.release();
  EXPECT_TRUE(named.read_until("event: end\n"));
  EXPECT_EQ(named.unread().find(": keep-alive"), std::string::npos);
  EXPECT_EQ(lines.read_response().body.find("\n\n"), std::string::npos);
}

TEST(HttpDialects, HeadersOfASilentStreamGoOutAllTheSame) {
  HttpOptions options;
  options.sse_keep_alive = 20ms;
  Served served(options, other_dialects());
  HttpClient client(served.port());
  client.send(HttpClient::post_text("/lines", say("wait in the queue", kStream)));
  EXPECT_TRUE(client.read_until("Content-Type: application/x-ndjson\r\n"));
  served.service.release();
  EXPECT_TRUE(client.read_until("{\"done\":true}\n"));
}

TEST(HttpDialects, WhatTheServerItselfRefusesHasTheShapeOfThePathsApi) {
  HttpOptions options;
  ASSERT_EQ(options.keys.add_key("a-long-secret", ""), "");
  options.body_bytes = 200;
  options.requests = 1;
  Served served(options, other_dialects());
  HttpClient client(served.port());
  const std::string key = "Authorization: Bearer a-long-secret\r\n";
  const auto problem = [&](const ClientResponse& response) {
    return std::to_string(response.status) + " " + member(response, "problem");
  };
  EXPECT_EQ(problem(client.post("/named/say", say("hi"))), "401 invalid_api_key");
  EXPECT_EQ(problem(client.get("/named/say", key)), "405 method_not_allowed");
  EXPECT_EQ(error_field(client.post("/named/other", say("hi"), key), "code"), "not_found")
      << "a path of nobody has the server's own shape";
  HttpClient waiting(served.port());
  waiting.send(HttpClient::post_text("/named/say", say("wait in the queue"), key));
  ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
  EXPECT_EQ(problem(client.post("/named/say", say("hi"), key)), "429 too_many_requests");
  EXPECT_EQ(member(client.post("/lines", say("hi"), key), "wrong"),
            "the server is answering as many requests as it may: 1");
  served.service.release();
  EXPECT_EQ(waiting.read_response().status, 200);
  EXPECT_EQ(problem(client.post("/named/say", say(std::string(200, 'x')), key)), "413 body_too_long");
}

TEST(HttpDialects, AnApiMayHaveAnotherStatus) {
  Served served({}, other_dialects());
  served.service.set_ask_failure(runtime::ErrorCode::kStopped);
  HttpClient client(served.port());
  const ClientResponse response = client.post("/named/count", say("hi"));
  EXPECT_EQ(response.status, 529);
  EXPECT_EQ(member(response, "problem"), "unavailable");
  EXPECT_EQ(client.post("/tokenize", R"({"content":"hi"})").status, 503);
}

TEST(HttpDialects, StreamsThatTheServerBreaksOffEndInTheirOwnWay) {
  Served served({}, other_dialects());
  HttpClient client(served.port());
  client.send(HttpClient::post_text("/named/say", say("wait half way", kStream)));
  ASSERT_TRUE(client.read_until("\"Hel\""));
  served.server.stop(10ms);
  const std::string rest = client.read_all();
  EXPECT_NE(rest.find("event: error\ndata: {\"problem\":\"shutting_down\",\"number\":2}\n\n"),
            std::string::npos)
      << rest;
}

TEST(HttpDialects, QuestionsAreAnsweredInOnePiece) {
  HttpOptions options;
  ASSERT_EQ(options.keys.add_key("a-long-secret", "somebody"), "");
  Served served(options, other_dialects());
  HttpClient client(served.port());
  const std::string key = "X-Api-Key: a-long-secret\r\n";
  EXPECT_EQ(client.post("/named/count", say("hi"), key).body, R"({"count":54})");
  EXPECT_EQ(client.get("/named/things/a%20b/c", key).body, R"({"thing":"a b/c","for":"somebody"})");
  const ClientResponse none = client.get("/named/things/none", key);
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(member(none, "problem"), "no_thing");
  EXPECT_EQ(client.post("/lines", "{}", key).body, R"({"done":true})") << "where text could be asked for";
  EXPECT_TRUE(served.service.requests().empty());
}

TEST(HttpDialects, PathsAreTheLabelsOfMetrics) {
  Served served({}, other_dialects());
  HttpClient client(served.port());
  client.post("/named/say", say("hi"));
  client.get("/named/things/one");
  client.get("/named/things/two");
  const std::string page = client.get("/metrics").body;
  EXPECT_NE(page.find("reprise_http_requests_total{path=\"/named/say\",status=\"200\"} 1"), std::string::npos)
      << page;
  EXPECT_NE(page.find("reprise_http_requests_total{path=\"/named/things/{id}\",status=\"200\"} 2"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise::protocol
