// OpenAI's Responses over HTTP: events in order, stable ids, stored responses.

#include <gtest/gtest.h>

#include <set>

#include "tests/protocol/named_events.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using namespace std::chrono_literals;

const std::string kResponsesPath = "/v1/responses";
const std::string kTwoTools =
    R"(,"tools":[{"type":"web_search"},{"type":"function","name":"get_weather","parameters":{}}])";

std::string response_body(const std::string& words, const std::string& more = {}) {
  return R"({"model":"fake","input":")" + words + "\"" + more + "}";
}

struct ServedResponses : Served {
  explicit ServedResponses(HttpOptions options = {}) : Served(std::move(options)) {
    service.set_chat_template("<think>\n\n</think>\n\n<tool_call>{{ tool_call | tojson }}</tool_call>");
  }
  ClientResponse post(const std::string& body, const std::string& headers = {}) {
    HttpClient client(port());
    return client.post(kResponsesPath, body, headers);
  }
  Json whole(const std::string& body) { return *Json::parse(post(body).body); }
  std::vector<NamedEvent> stream(const std::string& words, const std::string& more = {}) {
    return named_events(post(response_body(words, more + R"(,"stream":true)")).body);
  }
};

/// Expects consecutive numbers, types equal to names, and stable item IDs.
void expect_sound(const std::vector<NamedEvent>& events) {
  std::int64_t number = 0;
  std::map<std::int64_t, std::string> ids;
  for (const NamedEvent& event : events) {
    EXPECT_EQ(*event.data.find_string("type"), event.name);
    EXPECT_EQ(event.data.find("sequence_number")->as_int(), number++);
    const Json* index = event.data.find("output_index");
    if (index == nullptr) continue;
    const Json* item = event.data.find_object("item");
    const std::string& id = item != nullptr ? *item->find_string("id") : *event.data.find_string("item_id");
    EXPECT_EQ(ids.emplace(index->as_int(), id).first->second, id) << event.name;
  }
  const Json* response = events.back().data.find_object("response");
  ASSERT_NE(response, nullptr);
  const Json::Array& output = *response->find_array("output");
  ASSERT_EQ(output.size(), ids.size());
  for (std::size_t i = 0; i < output.size(); ++i)
    EXPECT_EQ(*output[i].find_string("id"), ids[static_cast<std::int64_t>(i)]);
}

TEST(ResponsesHttp, AStreamHasItsEventsInOrder) {
  ServedResponses served;
  const auto events = served.stream("hi");
  EXPECT_EQ(names_of(events),
            "response.created response.in_progress response.output_item.added response.content_part.added "
            "response.output_text.delta response.output_text.done response.content_part.done "
            "response.output_item.done response.completed");
  expect_sound(events);
  const Json& last = *events.back().data.find_object("response");
  EXPECT_EQ(*last.find_string("status"), "completed");
  EXPECT_EQ(last.find("usage")->dump(),
            R"({"input_tokens":9,"input_tokens_details":{"cached_tokens":5},"output_tokens":4,)"
            R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":13})");
  EXPECT_EQ(*last.find_array("output")->front().find_array("content")->front().find_string("text"),
            "Hello, world!");
  EXPECT_EQ(last.find("reprise")->find("restored_tokens")->as_int(), 5);
}

TEST(ResponsesHttp, ReasoningAndCallsAreItems) {
  ServedResponses served;
  const auto thought = served.stream("think", R"(,"include":["reasoning.encrypted_content"])");
  expect_sound(thought);
  EXPECT_EQ(names_of(thought),
            "response.created response.in_progress response.output_item.added response.content_part.added "
            "response.reasoning_text.delta response.reasoning_text.done response.content_part.done "
            "response.output_item.done response.output_item.added response.content_part.added "
            "response.output_text.delta response.output_text.done response.content_part.done "
            "response.output_item.done response.completed");
  const Json& output = *thought.back().data.find_object("response")->find("output");
  EXPECT_EQ(*output.as_array()[0].find_string("type"), "reasoning");
  EXPECT_EQ(*output.as_array()[0].find_array("content")->front().find_string("text"), "Let me see.");
  EXPECT_FALSE(output.as_array()[0].find_string("encrypted_content")->empty());
  EXPECT_EQ(thought.back().data.find("response")->find("usage")->find("output_tokens_details")->dump(),
            R"({"reasoning_tokens":2})");

  const auto called = served.stream("call a tool", kTwoTools);
  expect_sound(called);
  EXPECT_EQ(names_of(called),
            "response.created response.in_progress response.output_item.added "
            "response.function_call_arguments.delta "
            "response.function_call_arguments.done response.output_item.done response.completed");
  const Json whole = served.whole(response_body("call a tool", kTwoTools));
  const Json& call = whole.find_array("output")->front();
  EXPECT_EQ(*call.find_string("type"), "function_call");
  EXPECT_EQ(*call.find_string("name"), "get_weather");
  EXPECT_EQ(Json::parse(*call.find_string("arguments"))->dump(), R"({"city":"Paris"})");
  EXPECT_NE(*call.find_string("call_id"), *call.find_string("id"));
}

TEST(ResponsesHttp, CustomCallsHaveTheirTextAsInput) {
  ServedResponses served;
  served.service.set_script([](const GenerateRequest& request) {
    return reply_with(request, {"<tool_call>\n{\"name\": \"apply_", "patch\", \"arguments\": {\"in",
                                "put\": \"*** Begin", "\\n\\u00e", "9\"}}\n</tool_call>"});
  });
  const std::string tools = R"(,"tools":[{"type":"custom","name":"apply_patch"}])";
  const auto events = served.stream("patch", tools);
  expect_sound(events);
  EXPECT_EQ(names_of(events),
            "response.created response.in_progress response.output_item.added "
            "response.custom_tool_call_input.delta response.custom_tool_call_input.done "
            "response.output_item.done response.completed");
  std::string deltas;
  for (const NamedEvent& event : events) {
    if (event.name.ends_with("input.delta")) deltas += *event.data.find_string("delta");
  }
  EXPECT_EQ(deltas, "*** Begin\n\xC3\xA9");
  EXPECT_EQ(*events[events.size() - 3].data.find_string("input"), deltas);
  const Json whole = served.whole(response_body("patch", tools));
  const Json& call = whole.find_array("output")->front();
  EXPECT_EQ(*call.find_string("type"), "custom_tool_call");
  EXPECT_EQ(*call.find_string("name"), "apply_patch");
  EXPECT_EQ(*call.find_string("input"), deltas);
  EXPECT_FALSE(call.find_string("call_id")->empty());
}

TEST(ResponsesHttp, AGrammarOfACustomToolHoldsForItsCalls) {
  ServedResponses served;
  const std::string tools = R"(,"tools":[{"type":"function","name":"f"},{"type":"custom","name":"patch",)"
                            R"("format":{"type":"grammar","syntax":"lark","definition":"start: \"a\""}}])";
  for (const char* choice :
       {"", R"(,"tool_choice":"required")", R"(,"tool_choice":{"type":"custom","name":"patch"})"}) {
    EXPECT_EQ(served.post(response_body("x", tools + choice)).status, 200);
    const grammar::Constraint constraint = served.service.requests().back().rules.constraint;
    ASSERT_EQ(constraint.kind, grammar::Constraint::Kind::kCalls) << choice;
    EXPECT_EQ(constraint.calls.tools.back().name, "patch");
    EXPECT_EQ(constraint.calls.tools.back().input.text, "start: \"a\"");
  }
}

TEST(ResponsesHttp, CallsOfANamespaceNameIt) {
  ServedResponses served;
  served.service.set_script([](const GenerateRequest& request) {
    return reply_with(request, {"<tool_call>\n{\"name\": \"eyes__look\", \"arguments\": {}}\n</tool_call>"});
  });
  const Json whole = served.whole(response_body(
      "x", R"(,"tools":[{"type":"namespace","name":"eyes","tools":[{"type":"function","name":"look"}]}])"));
  const Json& call = whole.find_array("output")->front();
  EXPECT_EQ(*call.find_string("name"), "look");
  EXPECT_EQ(*call.find_string("namespace"), "eyes");
}

TEST(ResponsesHttp, ACompactionHasTheUsersMessagesAndASummary) {
  ServedResponses served;
  HttpClient client(served.port());
  const ClientResponse answer = client.post(
      "/v1/responses/compact",
      R"({"model":"fake","input":[{"role":"user","content":"one"},{"role":"assistant","content":"1"}]})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json body = *Json::parse(answer.body);
  EXPECT_EQ(*body.find_string("object"), "response.compaction");
  EXPECT_EQ(body.find("usage")->find("output_tokens")->as_int(), 4);
  const Json::Array& output = *body.find_array("output");
  ASSERT_EQ(output.size(), 2u);
  EXPECT_EQ(output[0].dump(), R"({"role":"user","content":"one"})");
  EXPECT_EQ(*output[1].find_string("type"), "compaction");
  // Its output becomes the next request's input.
  Json next = Json::object();
  next["model"] = "fake";
  next["input"] = *body.find("output");
  EXPECT_EQ(served.post(next.dump()).status, 200);
  const GenerateRequest asked = served.service.requests().back();
  const std::string messages = std::get<ChatPrompt>(asked.prompt).messages.dump();
  EXPECT_NE(messages.find("summary of it:\\n\\nHello, world!"), std::string::npos) << messages;
  EXPECT_EQ(client.post("/v1/responses/compact", R"({"input":"x","stream":true})").status, 400);
}

TEST(ResponsesHttp, ACompactionTriggerIsAnsweredWithOneItem) {
  ServedResponses served;
  const auto events = named_events(
      served
          .post(
              R"({"model":"fake","stream":true,"input":[{"role":"user","content":"one"},{"type":"compaction_trigger"}]})")
          .body);
  expect_sound(events);
  EXPECT_EQ(names_of(events),
            "response.created response.in_progress response.output_item.added response.output_item.done "
            "response.completed");
  const Json& item = *events[3].data.find_object("item");
  EXPECT_EQ(*item.find_string("type"), "compaction");
  EXPECT_FALSE(item.find_string("encrypted_content")->empty());
}

TEST(ResponsesHttp, TokensOfAnInputAreCounted) {
  ServedResponses served;
  HttpClient client(served.port());
  const ClientResponse answer =
      client.post("/v1/responses/input_tokens", R"({"model":"gpt-x","input":"hi"})");
  const std::string prompt = "[{\"role\":\"user\",\"content\":\"hi\"}]<|im_start|>assistant\n";
  EXPECT_EQ(answer.body,
            R"({"object":"response.input_tokens","input_tokens":)" + std::to_string(prompt.size()) + "}");
  EXPECT_EQ(client.post("/v1/responses/input_tokens", R"({"model":"fake"})").status, 400);
}

TEST(ResponsesHttp, AWebSocketIsRefusedAtOnce) {
  ServedResponses served;
  HttpClient client(served.port());
  const ClientResponse probe =
      client.get(kResponsesPath,
                 "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
  EXPECT_EQ(probe.status, 426);
  EXPECT_TRUE(probe.has("Upgrade: HTTP/1.1"));
  EXPECT_NE(probe.body.find("upgrade_required"), std::string::npos);
}

TEST(ResponsesHttp, ACutResponseIsIncomplete) {
  ServedResponses served;
  served.service.set_script(
      [](const GenerateRequest& request) { return reply_with(request, {"a"}, FinishReason::kLength); });
  const auto events = served.stream("hi");
  EXPECT_EQ(events.back().name, "response.incomplete");
  const Json& response = *events.back().data.find_object("response");
  EXPECT_EQ(response.find("incomplete_details")->dump(), R"({"reason":"max_output_tokens"})");
}

TEST(ResponsesHttp, AFailureEndsTheStream) {
  ServedResponses served;
  const auto events = served.stream("fail later");
  ASSERT_EQ(events.back().name, "response.failed");
  const Json& response = *events.back().data.find_object("response");
  EXPECT_EQ(*response.find_string("status"), "failed");
  EXPECT_EQ(*response.find("error")->find_string("code"), "internal_error");
  const ClientResponse refused = served.post(response_body("fail at once"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.find("rate_limit_error"), std::string::npos);
}

TEST(ResponsesHttp, StoredOnesAreReadWentOnFromAndDeleted) {
  ServedResponses served;
  HttpClient client(served.port());
  const Json first = served.whole(response_body("one"));
  const std::string id = *first.find_string("id");
  const ClientResponse read = client.get(kResponsesPath + "/" + id);
  EXPECT_EQ(read.status, 200);
  EXPECT_EQ(*Json::parse(read.body)->find_string("id"), id);
  const Json second = served.whole(response_body("two", R"(,"previous_response_id":")" + id + "\""));
  EXPECT_EQ(*second.find_string("previous_response_id"), id);
  EXPECT_EQ(std::get<ChatPrompt>(served.service.requests().back().prompt).messages.dump(),
            R"([{"role":"user","content":"one"},{"role":"assistant","content":"Hello, world!"},)"
            R"({"role":"user","content":"two"}])");
  client.send("DELETE " + kResponsesPath + "/" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const ClientResponse deleted = client.read_response();
  EXPECT_EQ(deleted.status, 200);
  EXPECT_EQ(deleted.body, R"({"id":")" + id + R"(","object":"response","deleted":true})");
  EXPECT_EQ(client.get(kResponsesPath + "/" + id).status, 404);
  EXPECT_EQ(served.post(response_body("two", R"(,"previous_response_id":")" + id + "\"")).status, 400);
  // The later response has the whole conversation.
  EXPECT_EQ(
      served.post(response_body("three", R"(,"previous_response_id":")" + *second.find_string("id") + "\""))
          .status,
      200);
  const std::string metrics = client.get("/metrics").body;
  EXPECT_NE(metrics.find("{path=\"/v1/responses/{id}\",status=\"404\"} 1"), std::string::npos) << metrics;
  const Json unstored = served.whole(response_body("x", R"(,"store":false)"));
  EXPECT_EQ(client.get(kResponsesPath + "/" + *unstored.find_string("id")).status, 404);
}

TEST(ResponsesHttp, TenantsDoNotSeeEachOthers) {
  HttpOptions options;
  ASSERT_EQ(options.keys.add("secret-one ann\nsecret-two bob"), "");
  ServedResponses served(options);
  HttpClient client(served.port());
  const ClientResponse made =
      client.post(kResponsesPath, response_body("x"), "Authorization: Bearer secret-one\r\n");
  ASSERT_EQ(made.status, 200);
  const std::string path = kResponsesPath + "/" + *Json::parse(made.body)->find_string("id");
  EXPECT_EQ(client.get(path, "Authorization: Bearer secret-one\r\n").status, 200);
  EXPECT_EQ(client.get(path, "Authorization: Bearer secret-two\r\n").status, 404);
  EXPECT_EQ(client.get(path).status, 401);
}

TEST(ResponsesHttp, InPrefillItSaysThatItIsInProgress) {
  HttpOptions options;
  options.sse_keep_alive = 5ms;
  ServedResponses served(options);
  served.service.set_script([](const GenerateRequest& request) {
    Script script = reply_with(request, {"a"});
    script.insert(script.begin() + 1, Hold{});  // after Admitted
    return script;
  });
  HttpClient client(served.port());
  client.send(HttpClient::post_text(kResponsesPath, response_body("hi", R"(,"stream":true)")));
  ASSERT_TRUE(client.read_until("\"sequence_number\":3"));
  served.service.release();
  const auto events = named_events(client.read_response().body);
  expect_sound(events);
  EXPECT_EQ(events[3].name, "response.in_progress");
  EXPECT_EQ(events.back().name, "response.completed");
}

TEST(ResponsesHttp, ModelsAreListedAsCodexReadsThem) {
  ServedResponses served;
  HttpClient client(served.port());
  const auto list = Json::parse(client.get("/v1/models?client_version=1.0.0").body);
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->find_array("models")->size(), list->find_array("data")->size());
  const Json& model = list->find_array("models")->front();
  EXPECT_EQ(*model.find_string("slug"), "fake");
  EXPECT_EQ(model.find("context_window")->as_int(), 4096);
  for (const char* name : {"display_name", "description", "supported_reasoning_levels", "shell_type",
                           "visibility", "supported_in_api", "priority", "base_instructions",
                           "supports_reasoning_summaries", "support_verbosity", "truncation_policy",
                           "supports_parallel_tool_calls", "experimental_supported_tools"}) {
    EXPECT_NE(model.find(name), nullptr) << name << ": Codex reads no list without it";
  }
  EXPECT_EQ(*model.find_string("apply_patch_tool_type"), "freeform");
  EXPECT_NE(model.find("model_messages")->find_string("instructions_template"), nullptr);
}

TEST(ResponsesHttp, OtherMethodsAreRefused) {
  ServedResponses served;
  HttpClient client(served.port());
  const ClientResponse got = client.get(kResponsesPath);
  EXPECT_EQ(got.status, 405);
  client.send("PUT " + kResponsesPath + "/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
  const ClientResponse put = client.read_response();
  EXPECT_EQ(put.status, 405);
  EXPECT_TRUE(put.has("Allow: GET, HEAD, DELETE, OPTIONS"));
}

}  // namespace
}  // namespace reprise::protocol
