// Structured output with the built-in model: replies match the constraint, a seed gives the same reply
// however it is computed, and infeasible constraints are refused before any prefill.

#include <gtest/gtest.h>

#include <regex>

#include "models/text/tokenizer_load.h"
#include "protocol/chat/call_constraint.h"
#include "protocol/chat/chat_request.h"
#include "tests/actors/chat_model.h"
#include "tests/actors/engine_harness.h"
#include "tests/protocol/grammar/json_validator.h"
#include "tests/sanitized.h"
#include "tests/source_folder.h"

namespace reprise::actors {
namespace {

using protocol::ChatPrompt;
using protocol::grammar::Constraint;

constexpr std::uint64_t kRepliesTried = rounds(12);
constexpr const char* kPersonSchema = R"({"type": "object", "properties": {
  "name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
  "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 2}},
  "required": ["name", "age"], "additionalProperties": false})";

class StructuredOutputTest : public testing::TestWithParam<std::string> {
 protected:
  StructuredOutputTest() {
    EngineOptions options = EngineHarness::defaults(GetParam(), "");
    options.models = {{.name = "m", .path = source_folder() / "models" / "builtin"}};
    harness_ = std::make_unique<EngineHarness>(options);
  }

  static Json json(const char* text) { return *Json::parse(text); }

  static protocol::GenerateRequest request(Constraint constraint, std::uint64_t seed) {
    Json messages = Json::array();
    messages.push_back(Json{{"role", "user"}, {"content", "Hello, I am Ada and I live in Ljubljana."}});
    protocol::GenerateRequest request{.prompt = ChatPrompt{.messages = std::move(messages)}};
    request.max_tokens = 400;
    request.sampling.temperature = 1.5;
    request.sampling.seed = seed;
    request.rules.constraint = std::move(constraint);
    return request;
  }
  static Constraint schema(const char* text) {
    return {.kind = Constraint::Kind::kJsonSchema, .json = json(text), .field = "response_format"};
  }

  // Returns the part of a reply that clients keep: without its reasoning.
  std::string content(const Reply::Choice& choice) const {
    const auto chat = harness_->engine().models().at(0).chat;
    const protocol::GenerateRequest asked = request({}, 1);
    const auto& prompt = std::get<ChatPrompt>(asked.prompt);
    const Json message = chat->message_of(prompt, choice.text, *chat->render(prompt), "seed");
    const std::string* text = message.find_string("content");
    return text == nullptr ? "" : *text;
  }

  std::unique_ptr<EngineHarness> harness_;
};

TEST_P(StructuredOutputTest, RepliesFitTheSchema) {
  for (std::uint64_t seed = 1; seed <= kRepliesTried; ++seed) {
    const Reply reply = harness_->ask(request(schema(kPersonSchema), seed));
    ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
    const auto& choice = reply.choices.at(0);
    ASSERT_EQ(choice.finished->reason, protocol::FinishReason::kStop) << choice.text;
    const auto parsed = Json::parse(content(choice));
    ASSERT_TRUE(parsed.ok()) << choice.text;
    EXPECT_TRUE(protocol::validates(json(kPersonSchema), json(kPersonSchema), *parsed)) << choice.text;
  }
  expect_nothing_held(*harness_);
}

TEST_P(StructuredOutputTest, OtherConstraints) {
  const Reply choice = harness_->ask(
      request({.kind = Constraint::Kind::kChoice, .choices = {"yes", "no"}, .field = "guided_choice"}, 3));
  ASSERT_FALSE(choice.error.has_value()) << choice.error->message;
  const std::string chosen = content(choice.choices.at(0));
  EXPECT_TRUE(chosen == "yes" || chosen == "no") << chosen;
  const Reply regex = harness_->ask(
      request({.kind = Constraint::Kind::kRegex, .text = "[0-9]{3}-[a-f]{2}", .field = "regex"}, 4));
  ASSERT_FALSE(regex.error.has_value()) << regex.error->message;
  EXPECT_EQ(content(regex.choices.at(0)).size(), 6U) << regex.choices.at(0).text;
  const Reply gbnf = harness_->ask(request(
      {.kind = Constraint::Kind::kGbnf, .text = "root ::= (\"a\" | \"b\"){5} \"!\"", .field = "grammar"}, 5));
  ASSERT_FALSE(gbnf.error.has_value()) << gbnf.error->message;
  EXPECT_EQ(content(gbnf.choices.at(0)).size(), 6U);
  EXPECT_EQ(content(gbnf.choices.at(0)).back(), '!');
}

TEST_P(StructuredOutputTest, TheSameSeedGivesTheSameReply) {
  const auto with = [&](bool cached) {
    protocol::GenerateRequest query = request(schema(kPersonSchema), 77);
    query.cache.enabled = cached;
    query.sampling.logprobs = 5;
    return query;
  };
  const Reply cold = harness_->ask(with(false));
  ASSERT_FALSE(cold.error.has_value()) << cold.error->message;
  EXPECT_EQ(harness_->ask(with(true)).choices, cold.choices);
  EXPECT_EQ(harness_->ask(with(true)).choices, cold.choices) << "restored";
  std::vector<runtime::StreamReader<protocol::Event>> together;
  for (int i = 0; i < 4; ++i) together.push_back(harness_->engine().generate(with(i % 2 == 0)));
  // Together with a reply without a constraint.
  protocol::GenerateRequest plain = request({}, 5);
  plain.max_tokens = 40;
  together.push_back(harness_->engine().generate(plain));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(read_all(std::move(together[static_cast<std::size_t>(i)])).choices, cold.choices) << i;
  const Reply concurrent = read_all(std::move(together.back()));
  EXPECT_EQ(harness_->ask(plain).choices, concurrent.choices);
}

TEST_P(StructuredOutputTest, SeveralChoicesEachHaveTheirOwn) {
  protocol::GenerateRequest query = request(schema(kPersonSchema), 9);
  query.n = 3;
  const Reply reply = harness_->ask(query);
  ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
  ASSERT_EQ(reply.choices.size(), 3U);
  for (const auto& choice : reply.choices) {
    const auto parsed = Json::parse(content(choice));
    ASSERT_TRUE(parsed.ok()) << choice.text;
    EXPECT_TRUE(protocol::validates(json(kPersonSchema), json(kPersonSchema), *parsed)) << choice.text;
  }
}

TEST_P(StructuredOutputTest, WhatCannotBeKeptIsRefused) {
  const Reply refused = harness_->ask(request(schema(R"({"type": "array", "uniqueItems": true})"), 1));
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_EQ(refused.error->kind, protocol::ErrorKind::kInvalid);
  EXPECT_EQ(refused.error->param, "response_format");
  EXPECT_NE(refused.error->message.find("uniqueItems"), std::string::npos);
  expect_nothing_held(*harness_);
}

TEST_P(StructuredOutputTest, AForcedCallIsOfAnOfferedToolAndFits) {
  const Json tools = json(R"([
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
      "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
      "required": ["city", "days"], "additionalProperties": false}}},
    {"type": "function", "function": {"name": "noop"}}])");
  const auto chat = harness_->engine().models().at(0).chat;
  ASSERT_NE(chat, nullptr);
  for (const char* only : {"", "get_weather"}) {
    for (std::uint64_t seed = 1; seed <= kRepliesTried; ++seed) {
      protocol::GenerateRequest query = request({}, seed);
      auto& prompt = std::get<ChatPrompt>(query.prompt);
      prompt.tools = tools;
      const auto rendered = chat->render(prompt);
      ASSERT_TRUE(rendered.ok());
      const protocol::ToolChoice choice{
          .mode = *only == '\0' ? protocol::ToolChoice::Mode::kRequired : protocol::ToolChoice::Mode::kNamed,
          .name = only};
      const auto parsing = protocol::prepare_chat(chat.get(), choice, *rendered, query);
      ASSERT_TRUE(parsing.ok()) << parsing.error().message;
      const std::string& opening = parsing->reply_opening;
      const Reply reply = harness_->ask(query);
      ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
      const Json message = chat->message_of(prompt, reply.choices.at(0).text, *rendered + opening, "seed");
      const auto* calls = message.find_array("tool_calls");
      ASSERT_TRUE(calls != nullptr && calls->size() == 1) << opening << reply.choices.at(0).text;
      const Json* function = (*calls)[0].find("function");
      const std::string& name = *function->find_string("name");
      ASSERT_TRUE(name == "get_weather" || (name == "noop" && *only == '\0')) << name;
      const auto arguments = Json::parse(*function->find_string("arguments"));
      ASSERT_TRUE(arguments.ok()) << *function->find_string("arguments");
      if (name == "noop") continue;
      const Json parameters = *tools.as_array()[0].find("function")->find("parameters");
      EXPECT_TRUE(protocol::validates(parameters, parameters, *arguments)) << arguments->dump();
    }
  }
}

TEST_P(StructuredOutputTest, AForcedTextFitsItsToolsGrammar) {
  constexpr const char* kGrammar =
      "start: \"*** \" (\"Add\" | \"Delete\") \": \" NAME LF line~1..3\nline: (\"+\" | \"-\") "
      "/[a-z\\\"<>]{0,12}/ LF\n"
      "NAME: /[a-z]{1,8}/ \".py\"\n%import common.LF";
  const Json tools =
      json(R"([{"type": "function", "function": {"name": "patch", "parameters": {"type": "object",
      "properties": {"input": {"type": "string"}}, "required": ["input"]}}}])");
  const std::vector<protocol::TextTool> texts = {
      {.name = "patch", .input = {.kind = protocol::grammar::TextRule::Kind::kLark, .text = kGrammar}}};
  const std::regex fits("\\*\\*\\* (Add|Delete): [a-z]{1,8}\\.py\n([+-][a-z\\\\\"<>]{0,12}\n){1,3}");
  const auto chat = harness_->engine().models().at(0).chat;
  for (std::uint64_t seed = 1; seed <= kRepliesTried; ++seed) {
    protocol::GenerateRequest query = request({}, seed);
    auto& prompt = std::get<ChatPrompt>(query.prompt);
    prompt.tools = tools;
    const auto rendered = chat->render(prompt);
    ASSERT_TRUE(rendered.ok());
    const auto opening = chat->call_opening("patch", *rendered);
    prompt.reply_opening = *opening;
    query.rules.constraint = {.kind = Constraint::Kind::kCalls,
                              .calls = *protocol::forced_call(chat->reply_format(), tools, "patch", texts),
                              .field = "tools"};
    const Reply reply = harness_->ask(query);
    ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
    const Json message = chat->message_of(prompt, reply.choices.at(0).text, *rendered + *opening, "seed");
    const auto* calls = message.find_array("tool_calls");
    ASSERT_TRUE(calls != nullptr && calls->size() == 1) << *opening << reply.choices.at(0).text;
    const auto arguments = Json::parse(*(*calls)[0].find("function")->find_string("arguments"));
    ASSERT_TRUE(arguments.ok() && arguments->find_string("input") != nullptr) << reply.choices.at(0).text;
    EXPECT_TRUE(std::regex_match(*arguments->find_string("input"), fits)) << *arguments->find_string("input");
  }
}

TEST_P(StructuredOutputTest, AToolsGrammarThatCannotBeKeptIsRefused) {
  protocol::grammar::CallsConstraint calls;
  calls.tools.push_back(
      {.name = "patch",
       .input = {.kind = protocol::grammar::TextRule::Kind::kLark, .text = "start: a\n%declare A"}});
  const Reply refused = harness_->ask(
      request({.kind = Constraint::Kind::kCalls, .calls = std::move(calls), .field = "tools"}, 1));
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_EQ(refused.error->kind, protocol::ErrorKind::kInvalid);
  EXPECT_NE(refused.error->message.find("format of 'patch': line 2 of the grammar: '%declare'"),
            std::string::npos)
      << refused.error->message;
}

// -- reasoning budgets, enforced by masks

class ReasoningBudgetTest : public StructuredOutputTest {
 protected:
  static protocol::GenerateRequest thinking(std::optional<std::int32_t> budget, std::uint64_t seed = 1) {
    protocol::GenerateRequest query = request({}, seed);
    std::get<ChatPrompt>(query.prompt).template_extra["enable_thinking"] = true;
    query.sampling.temperature = 0.8;
    query.sampling.logprobs = 3;
    query.max_tokens = 300;
    query.rules.reasoning_budget = budget;
    return query;
  }

  const models::Tokenizer& tokenizer() {
    if (!tokenizer_) tokenizer_.emplace(models::load_tokenizer(source_folder() / "models" / "builtin"));
    return *tokenizer_;
  }
  std::size_t find(const TokenList& tokens, const char* text) {
    return static_cast<std::size_t>(std::find(tokens.begin(), tokens.end(), *tokenizer().find(text)) -
                                    tokens.begin());
  }
  // Expects the reasoning to be closed after that many tokens, followed by an answer.
  void expect_closed(const Reply::Choice& choice, std::uint32_t budget) {
    const std::size_t closed = find(choice.tokens, "</think>");
    ASSERT_LT(closed, choice.tokens.size()) << choice.text;
    EXPECT_TRUE(closed == budget || closed == budget + 1) << "a line break may stand before the mark";
    EXPECT_EQ(choice.text.find("</think>\n\n"), choice.text.find("</think>")) << choice.text;
    EXPECT_GT(choice.text.size(), choice.text.find("</think>\n\n") + 10) << choice.text;
  }

  std::optional<models::Tokenizer> tokenizer_;
};

TEST_P(ReasoningBudgetTest, ReasoningIsClosedAndTheAnswerFollows) {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(rounds(3)); ++seed) {
    const Reply free = harness_->ask(thinking(std::nullopt, seed));
    ASSERT_FALSE(free.error.has_value()) << free.error->message;
    EXPECT_EQ(free.usage.reasoning_ended_by, protocol::ReasoningEnd::kModel);
    const std::size_t reasoned = find(free.tokens(), "</think>");
    for (const std::uint32_t budget : {0U, 1U, 7U, 64U, 250U}) {
      const Reply limited = harness_->ask(thinking(static_cast<std::int32_t>(budget), seed));
      ASSERT_FALSE(limited.error.has_value()) << limited.error->message;
      if (reasoned < budget) {  // bitwise identical to a reply without a budget
        EXPECT_EQ(limited.choices, free.choices) << budget << " of " << reasoned;
        EXPECT_EQ(limited.usage.reasoning_ended_by, protocol::ReasoningEnd::kModel);
      } else if (reasoned > budget + 1) {
        EXPECT_TRUE(
            std::equal(free.tokens().begin(), free.tokens().begin() + budget, limited.tokens().begin()));
        expect_closed(limited.choices.at(0), budget);
        EXPECT_EQ(limited.usage.reasoning_ended_by, protocol::ReasoningEnd::kBudget) << budget;
      }
    }
    EXPECT_EQ(harness_->ask(thinking(-1, seed)).choices, free.choices);
  }
  expect_nothing_held(*harness_);
}

TEST_P(ReasoningBudgetTest, ABudgetGoesTogetherWithASchema) {
  protocol::GenerateRequest query = thinking(3);
  query.rules.constraint = schema(kPersonSchema);
  query.max_tokens = 400;
  const Reply reply = harness_->ask(query);
  ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
  const Reply::Choice& choice = reply.choices.at(0);
  expect_closed(choice, 3);
  EXPECT_EQ(reply.usage.reasoning_ended_by, protocol::ReasoningEnd::kBudget);
  const auto parsed = Json::parse(choice.text.substr(choice.text.find("</think>") + 8));
  ASSERT_TRUE(parsed.ok()) << choice.text;
  EXPECT_TRUE(protocol::validates(json(kPersonSchema), json(kPersonSchema), *parsed)) << choice.text;
}

TEST_P(ReasoningBudgetTest, AForcedCallBeginsBehindReasoning) {
  const Json tools = json(R"([{"type": "function", "function": {"name": "noop", "parameters":
    {"type": "object", "properties": {}, "additionalProperties": false}}}])");
  const auto chat = harness_->engine().models().at(0).chat;
  protocol::GenerateRequest query = thinking(std::nullopt);
  auto& prompt = std::get<ChatPrompt>(query.prompt);
  prompt.tools = tools;
  const auto rendered = chat->render(prompt);
  ASSERT_TRUE(rendered.ok());
  const auto opening = chat->call_opening("noop", *rendered);
  ASSERT_TRUE(opening.has_value());
  prompt.reply_opening = *opening;
  query.rules.constraint = {.kind = Constraint::Kind::kCalls,
                            .calls = *protocol::forced_call(chat->reply_format(), tools, "noop"),
                            .field = "tools"};
  query.sampling.logit_bias = {{*tokenizer().find("<think>"), 1000.0F}};
  const Reply reply = harness_->ask(query);
  ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
  EXPECT_EQ(reply.choices.at(0).text.find("<think>"), std::string::npos) << reply.choices.at(0).text;
}

TEST_P(StructuredOutputTest, ALimitEndsTheReplyInWholeJson) {
  constexpr const char* kFree =
      R"({"type": "object", "properties": {"text": {"type": "string"}, "list": {"type": "array",
    "items": {"type": "string"}, "minItems": 1}}, "required": ["text", "list"], "additionalProperties": false})";
  for (std::uint32_t limit = 40; limit < 60; limit += 5) {
    protocol::GenerateRequest query = request(schema(kFree), limit);
    query.max_tokens = limit;
    query.cache.enabled = false;
    const Reply cold = harness_->ask(query);
    ASSERT_FALSE(cold.error.has_value()) << cold.error->message;
    EXPECT_LE(cold.tokens().size(), limit);
    const auto parsed = Json::parse(content(cold.choices.at(0)));
    ASSERT_TRUE(parsed.ok()) << cold.choices.at(0).text;
    EXPECT_TRUE(protocol::validates(json(kFree), json(kFree), *parsed)) << cold.choices.at(0).text;
    query.cache.enabled = true;
    EXPECT_EQ(harness_->ask(query).choices, cold.choices);
    EXPECT_EQ(harness_->ask(query).choices, cold.choices) << "restored";
  }
  expect_nothing_held(*harness_);
}

TEST_P(ReasoningBudgetTest, EveryChoiceHasItsOwn) {
  protocol::GenerateRequest query = thinking(5);
  query.n = 3;
  query.rules.min_tokens = 20;
  query.rules.stop = {"no such text"};
  const Reply reply = harness_->ask(query);
  ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
  ASSERT_EQ(reply.choices.size(), 3U);
  for (const auto& choice : reply.choices) expect_closed(choice, 5);
}

TEST_P(ReasoningBudgetTest, RestoredAndBesideOthersTheReplyIsTheSame) {
  protocol::GenerateRequest query = thinking(6);
  query.cache.enabled = false;
  const Reply cold = harness_->ask(query);
  query.cache.enabled = true;
  EXPECT_EQ(harness_->ask(query).choices, cold.choices);
  EXPECT_EQ(harness_->ask(query).choices, cold.choices) << "restored";
  std::vector<runtime::StreamReader<protocol::Event>> together;
  for (int i = 0; i < 3; ++i) together.push_back(harness_->engine().generate(query));
  for (auto& events : together) EXPECT_EQ(read_all(std::move(events)).choices, cold.choices);
}

TEST_P(ReasoningBudgetTest, CountsWhatTheModelOpensItself) {
  protocol::GenerateRequest query = thinking(4);
  std::get<ChatPrompt>(query.prompt).template_extra["enable_thinking"] = false;
  query.sampling.logit_bias = {{*tokenizer().find("<think>"), 1000.0F}};
  query.max_tokens = 40;
  const Reply reply = harness_->ask(query);
  ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
  const TokenList& tokens = reply.tokens();
  EXPECT_EQ(find(tokens, "<think>"), 0U);
  const std::size_t closed = find(tokens, "</think>");
  EXPECT_TRUE(closed == 5 || closed == 6) << closed;
  EXPECT_EQ(reply.usage.reasoning_ended_by, protocol::ReasoningEnd::kBudget);
}

TEST_P(ReasoningBudgetTest, TheClientEndsReasoningInFlight) {
  const ChatModelFolder folder;  // never ends its reasoning
  EngineOptions options = EngineHarness::defaults(GetParam(), "");
  options.models = {{.name = "m", .path = folder.path()}};
  EngineHarness harness(options);
  protocol::GenerateRequest query = thinking(std::nullopt);
  query.origin.reply_id = "r";
  query.origin.tenant = "t";
  auto events = harness.engine().generate(query);
  std::uint32_t before = 0;
  while (before < 5) {
    const auto event = events.next_blocking(runtime::deadline_after(60s));
    ASSERT_TRUE(event.ok());
    before += std::holds_alternative<protocol::Delta>(*event) ? 1 : 0;
  }
  EXPECT_FALSE(harness.engine().end_reasoning("r", "another"));
  EXPECT_FALSE(harness.engine().end_reasoning("another", "t"));
  EXPECT_FALSE(harness.engine().end_reasoning("", ""));
  EXPECT_TRUE(harness.engine().end_reasoning("r", "t"));
  const Reply rest = read_all(std::move(events));
  ASSERT_FALSE(rest.error.has_value()) << rest.error->message;
  EXPECT_NE(rest.choices.at(0).text.find("\n</think>\n\n"), std::string::npos) << rest.choices.at(0).text;
  EXPECT_EQ(rest.usage.reasoning_ended_by, protocol::ReasoningEnd::kClient);
  EXPECT_EQ(before + rest.tokens().size(), *query.max_tokens) << "the rest is the model's";
  EXPECT_FALSE(harness.engine().end_reasoning("r", "t")) << "it has ended";
  // Works before it has begun, too.
  auto soon = harness.engine().generate(query);
  EXPECT_TRUE(harness.engine().end_reasoning("r", "t"));
  EXPECT_EQ(read_all(std::move(soon)).usage.reasoning_ended_by, protocol::ReasoningEnd::kClient);
  expect_nothing_held(harness);
}

INSTANTIATE_TEST_SUITE_P(Devices, ReasoningBudgetTest, testing::ValuesIn(test_devices()),
                         [](const auto& info) { return test_name(info.param); });
INSTANTIATE_TEST_SUITE_P(Devices, StructuredOutputTest, testing::ValuesIn(test_devices()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace reprise::actors
