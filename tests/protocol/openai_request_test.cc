// Parsing of bodies into GenerateRequest: every field, and every error with the field's name.

#include "protocol/api/completions_request.h"

#include <gtest/gtest.h>

#include "protocol/api/api_error.h"

namespace reprise::protocol::openai {
namespace {

constexpr const char* kMessages = R"("messages":[{"role":"user","content":"hi"}])";

Outcome<TextRequest, Error> parse(TextKind kind, std::string members) {
  members.insert(0, 1, '{');
  members += '}';
  return parse_request(kind, members, {});
}
Outcome<TextRequest, Error> chat(const std::string& fields) {
  std::string members = kMessages;
  if (!fields.empty()) members += ',';
  return parse(TextKind::kChat, members + fields);
}
Outcome<TextRequest, Error> completion(const std::string& fields) {
  return parse(TextKind::kCompletion, fields);
}

TEST(OpenAiRequest, AnEmptyChatHasDefaults) {
  const auto request = chat("");
  ASSERT_TRUE(request.ok());
  const GenerateRequest& generate = request->asked.generate;
  EXPECT_EQ(generate.model, "");
  EXPECT_EQ(generate.n, 1u);
  EXPECT_FALSE(generate.max_tokens);
  EXPECT_FALSE(generate.sampling.temperature);
  EXPECT_FALSE(generate.sampling.seed);
  EXPECT_FALSE(generate.sampling.logprobs);
  EXPECT_TRUE(generate.cache.enabled);
  EXPECT_FALSE(generate.rules.ignore_eos);
  EXPECT_FALSE(request->asked.stream);
  EXPECT_EQ(request->asked.tool_choice.mode, ToolChoice::Mode::kNone);
  const auto& prompt = std::get<ChatPrompt>(generate.prompt);
  EXPECT_EQ(prompt.messages.dump(), R"([{"role":"user","content":"hi"}])");
  EXPECT_TRUE(prompt.tools.is_null());
  EXPECT_TRUE(prompt.add_generation_prompt);
}

TEST(OpenAiRequest, EveryFieldArrives) {
  const auto request = chat(R"("model":"m","n":3,"stop":["a","b"],"max_tokens":5,"max_completion_tokens":7,
      "temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.05,"seed":-1,"presence_penalty":1,"frequency_penalty":-1.5,
      "repetition_penalty":1.1,"repeat_last_n":64,"logit_bias":{"5":-100,"7":1.5},"logprobs":true,"top_logprobs":3,
      "stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"return_token_ids":true,
      "cache_salt":"salt","prompt_cache_key":"talk","cache_prompt":false,"min_cache_tokens":100,"kv_budget":512,
      "chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low","add_generation_prompt":false)");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const GenerateRequest& generate = request->asked.generate;
  EXPECT_EQ(generate.model, "m");
  EXPECT_EQ(generate.n, 3u);
  EXPECT_EQ(generate.rules.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(generate.max_tokens, 7u);
  const SamplingOverrides& sampling = generate.sampling;
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.min_p, 0.05);
  EXPECT_EQ(sampling.seed, ~std::uint64_t{0} >> 1);
  EXPECT_EQ(sampling.presence_penalty, 1);
  EXPECT_EQ(sampling.frequency_penalty, -1.5);
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
  EXPECT_EQ(sampling.repetition_last_n, 64);
  EXPECT_EQ(sampling.logit_bias, (std::vector<LogitBias>{{5, -100.F}, {7, 1.5F}}));
  EXPECT_EQ(sampling.logprobs, 3);
  EXPECT_TRUE(generate.rules.ignore_eos);
  EXPECT_EQ(generate.cache.conversation, "talk");
  EXPECT_FALSE(generate.cache.enabled);
  EXPECT_EQ(generate.cache.min_tokens, 100u);
  EXPECT_EQ(generate.cache.kv_budget, 512u);
  EXPECT_EQ(request->asked.cache_salt, "salt");
  EXPECT_TRUE(request->asked.stream);
  EXPECT_TRUE(request->reply.include_usage);
  EXPECT_TRUE(request->reply.return_token_ids);
  EXPECT_TRUE(request->reply.logprobs);
  EXPECT_EQ(request->reply.n, 3u);
  const auto& prompt = std::get<ChatPrompt>(generate.prompt);
  EXPECT_EQ(prompt.template_extra.dump(), R"({"enable_thinking":false,"reasoning_effort":"low"})");
  EXPECT_FALSE(prompt.add_generation_prompt);
}

TEST(OpenAiRequest, NullAndUnknownAndHarmlessFieldsAreAccepted) {
  for (const char* fields :
       {R"("temperature":null,"stop":null,"tools":null,"tool_choice":null,"n":null,"stream_options":null)",
        R"("user":"u","metadata":{"a":"b"},"store":true,"service_tier":"auto","safety_identifier":"x")",
        R"("something_new":{"deep":[1,2]})", R"("response_format":{"type":"text"},"modalities":["text"])",
        R"("echo":false,"best_of":1,"suffix":null,"functions":[],"parallel_tool_calls":true,"min_tokens":0)",
        R"("mirostat":0,"typical_p":1.0,"grammar":"","stop_token_ids":[],"skip_special_tokens":true)",
        R"("max_tokens":16.0,"top_k":-1)"}) {
    const auto request = chat(fields);
    EXPECT_TRUE(request.ok()) << fields << ": " << (request.ok() ? "" : request.error().message);
  }
}

struct Refusal {
  const char* fields;
  const char* param;
  const char* code;
};

TEST(OpenAiRequest, ChatFieldsAreRefusedByName) {
  const Refusal refusals[] = {
      {R"("model":5)", "model", "invalid_type"},
      {R"("n":0)", "n", "out_of_range"},
      {R"("n":1000)", "n", "out_of_range"},
      {R"("n":1.5)", "n", "invalid_type"},
      {R"("n":"2")", "n", "invalid_type"},
      {R"("temperature":"hot")", "temperature", "invalid_type"},
      {R"("temperature":-0.1)", "temperature", "out_of_range"},
      {R"("temperature":9)", "temperature", "out_of_range"},
      {R"("top_p":1.1)", "top_p", "out_of_range"},
      {R"("min_p":-1)", "min_p", "out_of_range"},
      {R"("top_k":-2)", "top_k", "out_of_range"},
      {R"("presence_penalty":3)", "presence_penalty", "out_of_range"},
      {R"("frequency_penalty":-3)", "frequency_penalty", "out_of_range"},
      {R"("seed":1e30)", "seed", "invalid_type"},
      {R"("max_tokens":0)", "max_tokens", "out_of_range"},
      {R"("max_completion_tokens":-5)", "max_completion_tokens", "out_of_range"},
      {R"("stop":[""])", "stop[0]", "invalid_value"},
      {R"("stop":7)", "stop", "invalid_type"},
      {R"("stop":["a",1])", "stop[1]", "invalid_type"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","0","a","b","c","d","e","f","g"])", "stop", "too_many"},
      {R"("logit_bias":[1])", "logit_bias", "invalid_type"},
      {R"("logit_bias":{"x":1})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"-4":1})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"4":101})", "logit_bias.4", "out_of_range"},
      {R"("logprobs":1)", "logprobs", "invalid_type"},
      {R"("top_logprobs":2)", "top_logprobs", "invalid_value"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs", "out_of_range"},
      {R"("stream":"yes")", "stream", "invalid_type"},
      {R"("stream_options":{"include_usage":true})", "stream_options", "invalid_value"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage",
       "invalid_type"},
      {R"("cache_prompt":1)", "cache_prompt", "invalid_type"},
      {R"("min_cache_tokens":-1)", "min_cache_tokens", "out_of_range"},
      {R"("kv_budget":-1)", "kv_budget", "out_of_range"},
      {R"("kv_budget":1e99)", "kv_budget", "invalid_type"},
      {R"("kv_budget":"all")", "kv_budget", "invalid_type"},
      {R"("cache_salt":5)", "cache_salt", "invalid_type"},
      {R"("chat_template_kwargs":[])", "chat_template_kwargs", "invalid_type"},
      {R"("tools":[{"type":"function"}])", "tools[0].function", "missing"},
      {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name", "missing"},
      {R"("tools":[{"type":"web_search"}])", "tools[0].type", "unsupported_parameter"},
      {R"("tools":[{"type":"function","function":{"name":"f","strict":1}}])", "tools[0].function.strict",
       "invalid_type"},
      {R"("tool_choice":"required")", "tool_choice", "invalid_value"},
      {R"("tool_choice":"perhaps")", "tool_choice", "invalid_value"},
      {R"("tool_choice":{"type":"function","function":{"name":"g"}})", "tool_choice.function.name",
       "invalid_value"},
      {R"("tool_choice":{"type":"allowed_tools"})", "tool_choice.type", "unsupported_parameter"},
      {R"("response_format":{"type":"grammar"})", "response_format", "unsupported_parameter"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format.json_schema.schema",
       "missing"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":7}})",
       "response_format.json_schema.schema", "invalid_type"},
      {R"("response_format":{"type":"json_object"},"grammar":"root ::= \"a\"")", "grammar", "invalid_value"},
      {R"("structured_outputs":{"regex":"a","choice":["b"]})", "structured_outputs", "invalid_value"},
      {R"("structured_outputs":{"structural_tag":"x"})", "structured_outputs.structural_tag",
       "unsupported_parameter"},
      {R"("guided_choice":[])", "guided_choice", "invalid_type"},
      {R"("guided_json":{},"guided_whitespace_pattern":7)", "guided_whitespace_pattern", "invalid_type"},
      {R"("guided_regex":"a","guided_whitespace_pattern":" ")", "guided_whitespace_pattern", "invalid_value"},
      {R"("structured_outputs":{"choice":["a"],"whitespace_pattern":" "})",
       "structured_outputs.whitespace_pattern", "invalid_value"},
      {R"("response_format":"text")", "response_format", "invalid_type"},
      {R"("modalities":["text","audio"])", "modalities", "unsupported_parameter"},
      {R"("audio":{"voice":"x"})", "audio", "unsupported_parameter"},
      {R"("prediction":{"type":"content"})", "prediction", "unsupported_parameter"},
      {R"("functions":[{"name":"f"}])", "functions", "unsupported_parameter"},
      {R"("web_search_options":{})", "web_search_options", "unsupported_parameter"},
      {R"("parallel_tool_calls":0)", "parallel_tool_calls", "invalid_type"},
      {R"("logits_processors":["x"])", "logits_processors", "unsupported_parameter"},
      {R"("guided_json":"{")", "guided_json", "invalid_value"},
      {R"("grammar":7)", "grammar", "invalid_type"},
      {R"("min_tokens":-4)", "min_tokens", "out_of_range"},
      {R"("min_tokens":4,"max_tokens":3)", "min_tokens", "invalid_value"},
      {R"("stop_token_ids":[-1])", "stop_token_ids[0]", "out_of_range"},
      {R"("stop_token_ids":5)", "stop_token_ids", "invalid_type"},
      {R"("truncate_prompt_tokens":0)", "truncate_prompt_tokens", "out_of_range"},
      {R"("prompt_logprobs":1)", "prompt_logprobs", "unsupported_parameter"},
      {R"("samplers":["top_k"])", "samplers", "unsupported_parameter"},
      {R"("dynatemp_range":0.5)", "dynatemp_range", "unsupported_parameter"},
      {R"("mirostat":2)", "mirostat", "unsupported_parameter"},
      {R"("typical_p":1.5)", "typical_p", "out_of_range"},
      {R"("xtc_probability":2)", "xtc_probability", "out_of_range"},
      {R"("dry_multiplier":-1)", "dry_multiplier", "out_of_range"},
      {R"("dry_multiplier":1,"dry_sequence_breakers":[""])", "dry_sequence_breakers[0]", "invalid_value"},
      {R"("echo":true)", "echo", "unsupported_parameter"},
      {R"("best_of":2)", "best_of", "unsupported_parameter"},
      {R"("chat_template":"{{ x }}")", "chat_template", "unsupported_parameter"},
  };
  for (const Refusal& refusal : refusals) {
    const auto request = chat(refusal.fields);
    ASSERT_FALSE(request.ok()) << refusal.fields;
    EXPECT_EQ(shown(request.error()).status, 400) << refusal.fields;
    EXPECT_EQ(request.error().param, refusal.param) << refusal.fields;
    EXPECT_EQ(request.error().code, refusal.code) << refusal.fields;
    EXPECT_TRUE(request.error().message.starts_with(refusal.param)) << request.error().message;
  }
}

TEST(OpenAiRequest, WhatTheReplyMustBe) {
  using Kind = grammar::Constraint::Kind;
  struct Case {
    const char* fields;
    Kind kind;
    const char* field;
  };
  const Case cases[] = {
      {R"("response_format":{"type":"text"})", Kind::kNone, ""},
      {R"("response_format":{"type":"json_object"})", Kind::kJsonObject, "response_format"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"null"}}})",
       Kind::kJsonSchema, "response_format.json_schema.schema"},
      {R"("response_format":{"type":"json_object","schema":{"type":"null"}})", Kind::kJsonSchema,
       "response_format.schema"},
      {R"("structured_outputs":{"json":{"type":"null"}})", Kind::kJsonSchema, "structured_outputs.json"},
      {R"("structured_outputs":{"regex":"a+"})", Kind::kRegex, "structured_outputs.regex"},
      {R"("structured_outputs":{"choice":["a","b"]})", Kind::kChoice, "structured_outputs.choice"},
      {R"("structured_outputs":{"grammar":"root ::= \"a\""})", Kind::kGbnf, "structured_outputs.grammar"},
      {R"("guided_json":"{\"type\":\"null\"}")", Kind::kJsonSchema, "guided_json"},
      {R"("guided_regex":"a")", Kind::kRegex, "guided_regex"},
      {R"("guided_choice":["a"])", Kind::kChoice, "guided_choice"},
      {R"("grammar":"root ::= \"a\"")", Kind::kGbnf, "grammar"},
      {R"("json_schema":{"type":"null"})", Kind::kJsonSchema, "json_schema"},
  };
  for (const Case& one : cases) {
    const auto request = chat(one.fields);
    ASSERT_TRUE(request.ok()) << one.fields << request.error().message;
    EXPECT_EQ(request->asked.generate.rules.constraint.kind, one.kind) << one.fields;
    EXPECT_EQ(request->asked.generate.rules.constraint.field, one.field) << one.fields;
  }
}

TEST(OpenAiRequest, MessagesAreRefusedWithTheirPlace) {
  const Refusal refusals[] = {
      {R"({})", "messages", "missing"},
      {R"({"messages":"hi"})", "messages", "invalid_type"},
      {R"({"messages":[]})", "messages", "invalid_value"},
      {R"({"messages":[7]})", "messages[0]", "invalid_type"},
      {R"({"messages":[{"content":"x"}]})", "messages[0].role", "missing"},
      {R"({"messages":[{"role":"wizard","content":"x"}]})", "messages[0].role", "invalid_value"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content", "missing"},
      {R"({"messages":[{"role":"user","content":5}]})", "messages[0].content", "invalid_type"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
       "messages[0].content[0].type", "unsupported_parameter"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text",
       "missing"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"id":"a"}]}]})",
       "messages[0].tool_calls[0].function", "missing"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]}]})",
       "messages[0].tool_calls[0].function.arguments", "invalid_type"},
      {R"({"messages":[{"role":"assistant","content":"x","audio":{"id":"y"}}]})", "messages[0].audio",
       "unsupported_parameter"},
  };
  for (const Refusal& refusal : refusals) {
    const auto request = parse_request(TextKind::kChat, refusal.fields, {});
    ASSERT_FALSE(request.ok()) << refusal.fields;
    EXPECT_EQ(request.error().param, refusal.param) << refusal.fields;
    EXPECT_EQ(request.error().code, refusal.code) << refusal.fields;
  }
}

TEST(OpenAiRequest, MessagesThatAreAccepted) {
  for (
      const char* messages :
      {R"([{"role":"system","content":"s"},{"role":"developer","content":"d"},{"role":"user","content":"u"}])",
       R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])",
       R"([{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f",
            "arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"42"}])",
       R"([{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"b"}]}])",
       R"([{"role":"assistant","reasoning_content":"hm","content":"x"}])"}) {
    const auto request = parse_request(TextKind::kChat, R"({"messages":)" + std::string(messages) + "}", {});
    EXPECT_TRUE(request.ok()) << messages << ": " << (request.ok() ? "" : request.error().message);
  }
}

TEST(OpenAiRequest, ToolChoices) {
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";
  const auto mode = [&](const std::string& choice) {
    const auto request = chat(tools + choice);
    EXPECT_TRUE(request.ok());
    return request->asked.tool_choice.mode;
  };
  EXPECT_EQ(mode(""), ToolChoice::Mode::kAuto);
  EXPECT_EQ(mode(R"(,"tool_choice":"auto")"), ToolChoice::Mode::kAuto);
  EXPECT_EQ(mode(R"(,"tool_choice":"none")"), ToolChoice::Mode::kNone);
  EXPECT_EQ(mode(R"(,"tool_choice":"required")"), ToolChoice::Mode::kRequired);
  EXPECT_EQ(mode(R"(,"tool_choice":{"type":"function","function":{"name":"f"}})"), ToolChoice::Mode::kNamed);
  // The template gets the tools only if they may be called.
  EXPECT_EQ(std::get<ChatPrompt>(chat(tools)->asked.generate.prompt).tools.size(), 1u);
  EXPECT_TRUE(
      std::get<ChatPrompt>(chat(tools + R"(,"tool_choice":"none")")->asked.generate.prompt).tools.is_null());
}

TEST(OpenAiRequest, CompletionPrompts) {
  EXPECT_EQ(std::get<std::string>(completion(R"("prompt":"abc")")->asked.generate.prompt), "abc");
  EXPECT_EQ(std::get<TokenList>(completion(R"("prompt":[1,2,3])")->asked.generate.prompt),
            (TokenList{1, 2, 3}));
  EXPECT_EQ(std::get<std::string>(completion(R"("prompt":["abc"])")->asked.generate.prompt), "abc");
  EXPECT_EQ(std::get<TokenList>(completion(R"("prompt":[[4,5]])")->asked.generate.prompt), (TokenList{4, 5}));
  const auto several = completion(R"("prompt":["a",[1,2],"c"],"n":4)");
  EXPECT_EQ(std::get<std::string>(several->asked.generate.prompt), "a");
  ASSERT_EQ(several->asked.further_prompts.size(), 2u);
  EXPECT_EQ(std::get<TokenList>(several->asked.further_prompts[0]), (TokenList{1, 2}));
  EXPECT_EQ(std::get<std::string>(several->asked.further_prompts[1]), "c");
  EXPECT_EQ(several->reply.prompts, 3u);
  EXPECT_EQ(several->reply.n, 4u);
  EXPECT_EQ(completion(R"("prompt":"abc")")->asked.generate.max_tokens, 16u);
  EXPECT_EQ(completion(R"("prompt":"abc","logprobs":2)")->asked.generate.sampling.logprobs, 2);
  const Refusal refusals[] = {
      {R"("max_tokens":1)", "prompt", "missing"},
      {R"("prompt":[])", "prompt", "invalid_value"},
      {R"("prompt":{})", "prompt", "invalid_type"},
      {R"("prompt":["a",{}])", "prompt[1]", "invalid_type"},
      {R"("prompt":["a",[]])", "prompt[1]", "invalid_value"},
      {R"("prompt":[[1],[2,-3]])", "prompt[1][1]", "out_of_range"},
      {R"("prompt":[1,"b"])", "prompt[1]", "invalid_type"},
      {R"("prompt":[1,-2])", "prompt[1]", "out_of_range"},
      {R"("prompt":[1,2.5])", "prompt[1]", "invalid_type"},
      {R"("prompt":[[["a"]]])", "prompt[0][0]", "invalid_type"},
      {R"("prompt":"a","logprobs":true)", "logprobs", "invalid_type"},
      {R"("prompt":[1],"suffix":"b")", "suffix", "invalid_value"},
      {R"("prompt":"a","echo":true,"logprobs":1)", "echo", "unsupported_parameter"},
      {R"("prompt":"a","best_of":3,"stream":true)", "best_of", "invalid_value"},
      {R"("prompt":"a","best_of":2,"n":3)", "best_of", "invalid_value"},
  };
  for (const Refusal& refusal : refusals) {
    const auto request = completion(refusal.fields);
    ASSERT_FALSE(request.ok()) << refusal.fields;
    EXPECT_EQ(request.error().param, refusal.param) << refusal.fields;
    EXPECT_EQ(request.error().code, refusal.code) << refusal.fields;
  }
}

TEST(OpenAiRequest, LimitsHold) {
  BodyLimits limits;
  limits.messages = 2;
  limits.prompt_bytes = 10;
  limits.prompt_tokens = 3;
  limits.prompts = 2;
  limits.nesting = 8;
  const auto code = [&](TextKind kind, const std::string& body) {
    const auto request = parse_request(kind, body, limits);
    return request.ok() ? "accepted" : request.error().code;
  };
  const std::string one = R"({"role":"user","content":"12345678"})";
  EXPECT_EQ(code(TextKind::kChat, R"({"messages":[)" + one + "]}"), "accepted");
  EXPECT_EQ(code(TextKind::kChat, R"({"messages":[)" + one + "," + one + "]}"), "too_long");
  EXPECT_EQ(code(TextKind::kChat, R"({"messages":[)" + one + "," + one + "," + one + "]}"), "too_many");
  EXPECT_EQ(code(TextKind::kCompletion, R"({"prompt":"12345678901"})"), "too_long");
  EXPECT_EQ(code(TextKind::kCompletion, R"({"prompt":[1,2,3,4]})"), "too_long");
  EXPECT_EQ(code(TextKind::kCompletion, R"({"prompt":["a","b"]})"), "accepted");
  EXPECT_EQ(code(TextKind::kCompletion, R"({"prompt":["a","b","c"]})"), "too_many");
  EXPECT_EQ(code(TextKind::kCompletion, R"({"prompt":"a","x":[[[[[[[[[[1]]]]]]]]]]})"), "invalid_json");
  EXPECT_EQ(code(TextKind::kCompletion, "[]"), "invalid_json");
  EXPECT_EQ(code(TextKind::kCompletion, "{\"prompt\":"), "invalid_json");
  EXPECT_EQ(code(TextKind::kCompletion, ""), "invalid_json");
}

TEST(OpenAiRequest, TokenIdsDoNotCountAmongTheValues) {
  BodyLimits limits;
  limits.values = 10;
  limits.members = 4;
  limits.prompt_tokens = 100;
  std::string ids = "1";
  for (int i = 1; i < 100; ++i) ids += ",1";
  const auto message = [&](TextKind kind, const std::string& body) {
    const auto request = parse_request(kind, body, limits);
    return request.ok() ? "accepted" : request.error().message;
  };
  EXPECT_EQ(message(TextKind::kCompletion, R"({"prompt":[)" + ids + "]}"), "accepted");
  EXPECT_EQ(message(TextKind::kChat, R"({"messages":[{"role":"user","content":"a"}],"x":[)" + ids + "]}"),
            "invalid JSON at line 1, column 58: more than 10 values");
  EXPECT_EQ(message(TextKind::kCompletion, R"({"prompt":"a","b":1,"c":1,"d":1,"e":1})"),
            "invalid JSON at line 1, column 33: more than 4 members of objects");
}

TEST(OpenAiRequest, FieldsAreFoundAmongManyMembers) {
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "\"x" + std::to_string(i * 7919 % 1000) + "\":1,";
  const auto request = chat(many + R"("temperature":0.5,"n":null,"best_of":1)");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->asked.generate.sampling.temperature, 0.5);
  EXPECT_EQ(request->asked.generate.n, 1u);
  EXPECT_EQ(chat(many + R"("temperature":"hot")").error().param, "temperature");
  EXPECT_EQ(chat(many + R"("best_of":2)").error().param, "best_of");
}

TEST(OpenAiRequest, ErrorsQuoteNoMoreThanAFewWords) {
  const std::string text = "é" + std::string(100'000, 'x');
  const std::string zeros(100'000, '0');
  for (const std::string& fields :
       {R"("response_format":{"type":")" + text + "\"}", R"("logit_bias":{")" + text + "\":1}",
        R"("logit_bias":{")" + zeros + "\":\"much\"}", R"("tool_choice":")" + text + "\"",
        "\"" + text + "\":1,\"model\":\"" + text + "\""}) {
    const auto request = chat(fields);
    ASSERT_FALSE(request.ok());
    EXPECT_LT(request.error().message.size() + request.error().param.size(), 300u);
  }
  const auto cut = chat(R"("tool_choice":")" + std::string(79, 'x') + "é\"");
  EXPECT_EQ(cut.error().message,
            "tool_choice: '" + std::string(79, 'x') + "…' is not one of none, auto, required");
}

TEST(OpenAiRequest, ErrorsComeInOpenAisEnvelope) {
  const auto request = chat(R"("temperature":9000)");
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(error_envelope(request.error()).dump(),
            R"({"error":{"message":"temperature: 9000 is not from 0 to 2","type":"invalid_request_error",)"
            R"("param":"temperature","code":"out_of_range"}})");
  EXPECT_EQ(shown({.kind = ErrorKind::kUnknownModel, .message = "m"}).status, 404);
  EXPECT_EQ(shown({.kind = ErrorKind::kOverloaded, .message = "m"}).status, 429);
  EXPECT_TRUE(shown({.kind = ErrorKind::kUnavailable, .message = "m"}).retry_after);
  EXPECT_EQ(shown({.kind = ErrorKind::kTooLong, .message = "m"}).code, "context_length_exceeded");
}

TEST(ChatRequest, CheckpointsNameMessagesToSnapshotAfter) {
  const std::string messages =
      R"("messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"}])";
  const auto request = parse_request(TextKind::kChat, "{" + messages + R"(,"checkpoints":[1,0]})", {});
  ASSERT_TRUE(request.ok()) << request.error().message;
  const auto& places = std::get<ChatPrompt>(request->asked.generate.prompt).breakpoints;
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0].index, 1U);
  EXPECT_EQ(places[0].at, 2U);
  EXPECT_EQ(places[1].at, 5U);
  EXPECT_EQ(places[1].ttl.count(), 0) << "as long as the cache likes";
  for (const char* wrong : {"[2]", "[-1]", "[\"0\"]", "[0.5]", "0", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"}) {
    const auto refused =
        parse_request(TextKind::kChat, "{" + messages + ",\"checkpoints\":" + wrong + "}", {});
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_TRUE(refused.error().param.starts_with("checkpoints")) << refused.error().param;
  }
  EXPECT_FALSE(parse_request(TextKind::kCompletion, R"({"prompt":"x","checkpoints":[0]})", {}).ok());
}

TEST(OpenAiRequest, EverydayFields) {
  const auto request = chat(R"("stop_token_ids":[3,4],"min_tokens":2,"include_stop_str_in_output":true,
      "truncate_prompt_tokens":100,"parallel_tool_calls":false,"max_tokens":-1)");
  ASSERT_TRUE(request.ok());
  const GenerateRequest& generate = request->asked.generate;
  EXPECT_EQ(generate.rules.stop_tokens, (std::vector<TokenId>{3, 4}));
  EXPECT_EQ(generate.rules.min_tokens, 2u);
  EXPECT_TRUE(generate.rules.keep_stop);
  EXPECT_EQ(generate.prompt_tail_tokens, 100u);
  EXPECT_TRUE(generate.rules.unlimited);
  EXPECT_FALSE(generate.max_tokens);
  EXPECT_TRUE(request->asked.one_call);
  EXPECT_EQ(chat(R"("truncate_prompt_tokens":-1)")->asked.generate.prompt_tail_tokens, 0u);
}

TEST(OpenAiRequest, ReasoningBudgets) {
  const auto budget_of = [](const std::string& fields) {
    return chat(fields.c_str())->asked.generate.rules.reasoning_budget;
  };
  for (const char* name : {"thinking_token_budget", "thinking_budget", "thinking_budget_tokens",
                           "reasoning_budget", "reasoning_budget_tokens"}) {
    EXPECT_EQ(budget_of("\"" + std::string(name) + "\":64"), 64) << name;
    EXPECT_FALSE(chat("\"" + std::string(name) + "\":-2").ok()) << name;
  }
  EXPECT_EQ(budget_of(R"("reasoning":{"max_tokens":0})"), 0);
  EXPECT_EQ(budget_of(R"("thinking_token_budget":-1)"), -1);
  EXPECT_EQ(budget_of(R"("temperature":1)"), std::nullopt);
  EXPECT_EQ(completion(R"("prompt":"a","reasoning":{"max_tokens":5})")->asked.generate.rules.reasoning_budget,
            5);
  const auto chosen = chat(R"("reasoning":{"effort":"low","enabled":true})");
  EXPECT_EQ(std::get<ChatPrompt>(chosen->asked.generate.prompt).template_extra.dump(),
            R"({"enable_thinking":true,"reasoning_effort":"low"})");
}

TEST(OpenAiRequest, Samplers) {
  const auto request = chat(R"("typical_p":0.5,"top_n_sigma":1.5,"xtc_probability":0.25,"xtc_threshold":0.2,
      "dry_multiplier":0.8,"dry_base":2,"dry_allowed_length":3,
      "dry_penalty_last_n":64,"dry_sequence_breakers":["."])");
  ASSERT_TRUE(request.ok());
  const SamplingOverrides& sampling = request->asked.generate.sampling;
  EXPECT_EQ(sampling.typical_p, 0.5);
  EXPECT_EQ(sampling.top_n_sigma, 1.5);
  EXPECT_EQ(sampling.xtc_probability, 0.25);
  EXPECT_EQ(sampling.xtc_threshold, 0.2);
  EXPECT_EQ(sampling.dry_multiplier, 0.8);
  EXPECT_EQ(sampling.dry_base, 2);
  EXPECT_EQ(sampling.dry_allowed_length, 3);
  EXPECT_EQ(sampling.dry_penalty_last_n, 64);
  EXPECT_EQ(request->asked.generate.rules.dry_breakers, std::vector<std::string>{"."});
  EXPECT_EQ(chat(R"("dry_multiplier":1)")->asked.generate.rules.dry_breakers.size(), 4u);
  EXPECT_EQ(chat(R"("temperature":1)")->asked.generate.sampling, (SamplingOverrides{.temperature = 1}));
}

TEST(OpenAiRequest, OverridesOfCompletions) {
  const auto filled = completion(R"("prompt":["a","b"],"suffix":"c")");
  ASSERT_TRUE(filled.ok());
  EXPECT_EQ(std::get<InfillPrompt>(filled->asked.generate.prompt).suffix, "c");
  EXPECT_EQ(std::get<InfillPrompt>(filled->asked.further_prompts.at(0)).prefix, "b");
  const auto best = completion(R"("prompt":"a","n":2,"best_of":5)");
  EXPECT_EQ(best->asked.generate.n, 5u);
  EXPECT_EQ(best->reply.shown, 2u);
  EXPECT_EQ(best->asked.generate.sampling.logprobs, 0);
  const auto echoed = completion(R"("prompt":["a",[1]],"echo":true)");
  EXPECT_EQ(echoed->reply.prompt_texts, (std::vector<std::string>{"a", ""}));
  EXPECT_TRUE(echoed->asked.generate.report.settled);
}

}  // namespace
}  // namespace reprise::protocol::openai
