// Replies as OpenAI has them, streamed and whole, from the same events.

#include <gtest/gtest.h>

#include "protocol/api/completions_reply.h"
#include "protocol/api/reply_text.h"

namespace reprise::protocol::openai {
namespace {

constexpr const char* kTemplate = "<think>\n\n</think>\n\n<tool_call>{{ tool_call | tojson }}</tool_call>";
constexpr std::int64_t kNow = 7;

ReplyToken token(std::string bytes, TokenId id) {
  return {.id = id, .bytes = std::move(bytes), .logprob = -0.5};
}

/// The chunks of a stream, parsed.
std::vector<Json> chunks(const std::string& text) {
  std::vector<Json> found;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find("\n\n", at);
    const std::string event = text.substr(at, end - at);
    at = end + 2;
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    if (event == "data: [DONE]") {
      EXPECT_EQ(at, text.size());
      return found;
    }
    auto parsed = Json::parse(event.substr(6));
    EXPECT_TRUE(parsed.ok()) << event;
    if (parsed.ok()) found.push_back(*parsed);
  }
  ADD_FAILURE() << "no [DONE] in " << text;
  return found;
}

/// Both kinds of reply to the same texts, one token for each.
struct Both {
  Json whole;
  std::vector<Json> streamed;
};

Both reply_to(const std::vector<std::string>& texts, ReplyOptions options,
              FinishReason reason = FinishReason::kStop) {
  const ReplyContext context{.id = "seed", .chat = *ChatFormat::make(kTemplate, {})};
  StreamReply streamed(options, context);
  WholeReply whole(options, context);
  std::string out;
  std::string body;
  streamed.admitted({.model = "m", .prompt_tokens = 3}, kNow, out);
  whole.admitted({.model = "m", .prompt_tokens = 3}, kNow, body);
  const Started started{.cache = {}, .prompt_tail = "assistant\n", .prompt = share_tokens({8, 9})};
  streamed.started(started, out);
  whole.started(started, body);
  TokenId id = 0;
  for (const std::string& text : texts) {
    ++id;
    for (std::uint32_t choice = 0; choice < options.n; ++choice) {
      const Delta delta{.choice = choice, .text = text, .tokens = {token(text, id)}};
      streamed.delta(delta, out);
      whole.delta(delta, body);
    }
  }
  for (std::uint32_t choice = 0; choice < options.n; ++choice) {
    const Finished finished{.choice = choice, .reason = reason};
    streamed.finished(finished, out);
    whole.finished(finished, body);
  }
  const Done done{{.prompt_tokens = 3, .completion_tokens = static_cast<std::uint32_t>(texts.size())}};
  streamed.done(done, out);
  EXPECT_EQ(body, "");
  whole.done(done, body);
  auto parsed = Json::parse(body);
  EXPECT_TRUE(parsed.ok());
  return {parsed.ok() ? *parsed : Json(), chunks(out)};
}

const Json& choice_of(const Json& object, std::size_t index = 0) {
  return object.find_array("choices")->at(index);
}

/// All of one member of the deltas of a choice, joined.
std::string joined(const std::vector<Json>& streamed, std::string_view member, std::int64_t index = 0) {
  std::string text;
  for (const Json& chunk : streamed) {
    if (chunk.find_array("choices")->empty()) continue;
    const Json& choice = choice_of(chunk);
    if (choice.find("index")->as_int() != index) continue;
    if (const std::string* part = choice.find_object("delta")->find_string(member)) text += *part;
  }
  return text;
}

TEST(OpenAiReply, ReasoningAndContentAreApart) {
  const Both both = reply_to({"<thi", "nk>\nhm", "m\n</th", "ink>\n\nYes", "."}, {});
  const Json* message = choice_of(both.whole).find_object("message");
  EXPECT_EQ(*message->find_string("reasoning_content"), "hmm");
  EXPECT_EQ(*message->find_string("content"), "Yes.");
  EXPECT_EQ(*message->find_string("reasoning"), "hmm") << "by its other name, too";
  EXPECT_EQ(joined(both.streamed, "reasoning_content"), "hmm");
  EXPECT_EQ(joined(both.streamed, "reasoning"), "hmm");
  EXPECT_EQ(joined(both.streamed, "content"), "Yes.");
}

TEST(OpenAiReply, ToolCallsStreamAsDeltas) {
  const Both both = reply_to(
      {"Well.\n<tool_", "call>\n{\"name\": \"f\", ", "\"arguments\": {\"a\"", ": 1}}\n</tool_call>"}, {});
  const Json& choice = choice_of(both.whole);
  EXPECT_EQ(*choice.find_string("finish_reason"), "tool_calls");
  const Json& call = choice.find_object("message")->find_array("tool_calls")->front();
  EXPECT_EQ(*call.find_object("function")->find_string("name"), "f");
  const std::string arguments = *call.find_object("function")->find_string("arguments");
  EXPECT_EQ(Json::parse(arguments)->dump(), R"({"a":1})");

  std::string streamed_arguments;
  int begins = 0;
  for (const Json& chunk : both.streamed) {
    const Json::Array* calls = choice_of(chunk).find_object("delta")->find_array("tool_calls");
    if (calls == nullptr) continue;
    EXPECT_EQ(calls->front().find("index")->as_int(), 0);
    if (const std::string* id = calls->front().find_string("id")) {
      ++begins;
      EXPECT_EQ(*id, *call.find_string("id"));
      EXPECT_EQ(*calls->front().find_object("function")->find_string("name"), "f");
    }
    streamed_arguments += *calls->front().find_object("function")->find_string("arguments");
  }
  EXPECT_EQ(begins, 1);
  EXPECT_EQ(streamed_arguments, arguments);
  EXPECT_EQ(*choice_of(both.streamed.back()).find_string("finish_reason"), "tool_calls");
  EXPECT_EQ(joined(both.streamed, "content"), "Well.");
}

TEST(OpenAiReply, ACallThatWasCutOffIsALengthFinish) {
  const Both both =
      reply_to({"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\""}, {}, FinishReason::kLength);
  EXPECT_EQ(*choice_of(both.whole).find_string("finish_reason"), "length");
  EXPECT_EQ(*choice_of(both.streamed.back()).find_string("finish_reason"), "length");
}

TEST(OpenAiReply, NoTokenIsLostOrToldTwice) {
  // Text is held back while it may begin a mark; its tokens come later, in order.
  const std::vector<std::string> texts = {"a", "<tool", "_box", "<", "/think", "", "b"};
  for (const TextKind kind : {TextKind::kChat, TextKind::kCompletion}) {
    const ReplyOptions options{.kind = kind, .return_token_ids = true, .logprobs = true, .n = 2};
    const Both both = reply_to(texts, options);
    for (std::int64_t index = 0; index < 2; ++index) {
      std::string ids, names;
      for (const Json& chunk : both.streamed) {
        const Json& choice = choice_of(chunk);
        if (choice.find("index")->as_int() != index) continue;
        for (const Json& id : *choice.find_array("token_ids")) ids += id.dump() + " ";
        const Json* logprobs = choice.find_object("logprobs");
        if (logprobs == nullptr) continue;
        for (const Json& item : *logprobs->find_array(kind == TextKind::kChat ? "content" : "tokens")) {
          names += kind == TextKind::kChat ? *item.find_string("token") : item.as_string();
        }
      }
      EXPECT_EQ(ids, "1 2 3 4 5 6 7 ");
      EXPECT_EQ(names, "a<tool_box</thinkb");
      EXPECT_EQ(choice_of(both.whole, static_cast<std::size_t>(index)).find("token_ids")->dump(),
                "[1,2,3,4,5,6,7]");
    }
  }
}

TEST(OpenAiReply, ThePromptsIdsComeOnceAndFirst) {
  constexpr const char* kIds = "prompt_token_ids";
  const Both chat = reply_to({"a", "b"}, {.return_token_ids = true, .n = 2});
  EXPECT_EQ(chat.whole.find(kIds)->dump(), "[8,9]");
  EXPECT_EQ(chat.streamed.front().find(kIds)->dump(), "[8,9]");
  for (std::size_t i = 1; i < chat.streamed.size(); ++i) EXPECT_EQ(chat.streamed[i].find(kIds), nullptr);

  const Both completion =
      reply_to({"a", "b"}, {.kind = TextKind::kCompletion, .return_token_ids = true, .n = 2});
  std::vector<bool> told(2);
  for (const Json& chunk : completion.streamed) {
    const auto index = static_cast<std::size_t>(choice_of(chunk).find("index")->as_int());
    const Json* ids = choice_of(chunk).find(kIds);
    ASSERT_EQ(ids != nullptr, !told[index]) << "in the first chunk of each choice";
    if (ids != nullptr) {
      EXPECT_EQ(ids->dump(), "[8,9]");
    }
    told[index] = true;
  }
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(choice_of(completion.whole, i).find(kIds)->dump(), "[8,9]");

  const Both silent = reply_to({"a"}, {});
  EXPECT_EQ(silent.whole.find(kIds), nullptr);
  EXPECT_EQ(silent.streamed.front().find(kIds), nullptr);
}

TEST(OpenAiReply, TheAccountComesOnceAtTheEnd) {
  for (const bool include_usage : {false, true}) {
    const Both both = reply_to({"a", "b"}, {.include_usage = include_usage, .n = 2});
    int accounts = 0, finishes = 0;
    for (const Json& chunk : both.streamed) {
      accounts += chunk.find("reprise") != nullptr;
      for (const Json& choice : *chunk.find_array("choices"))
        finishes += choice.find("finish_reason")->is_string();
      EXPECT_EQ(chunk.find("usage") != nullptr, include_usage);
    }
    EXPECT_EQ(accounts, 1);
    EXPECT_EQ(finishes, 2);
    EXPECT_NE(both.streamed.back().find("reprise"), nullptr);
    EXPECT_EQ(both.streamed.back().find_array("choices")->empty(), include_usage);
  }
}

TEST(OpenAiReply, WhatWasKeptOfThePromptIsTold) {
  std::string plain;
  append_reprise(plain, {});
  EXPECT_EQ(plain.find("\"kv\""), std::string::npos);
  Usage usage;
  usage.kv = KvKept{.tokens = 2048, .bytes = 5'000'000'000, .full_bytes = 40'000'000'000};
  std::string told;
  append_reprise(told, usage);
  const auto parsed = Json::parse(told);
  ASSERT_TRUE(parsed.ok()) << told;
  const Json* kv = parsed->find_object("kv");
  ASSERT_NE(kv, nullptr);
  EXPECT_EQ(kv->find("kept_tokens")->as_int(), 2048);
  EXPECT_EQ(kv->find("bytes")->as_int(), 5'000'000'000);
  EXPECT_EQ(kv->find("full_bytes")->as_int(), 40'000'000'000);
}

TEST(OpenAiReply, TheTextAroundAMissIsToldWhereItIsThere) {
  std::string plain;
  append_reprise(plain, {});
  EXPECT_EQ(plain.find("miss_text"), std::string::npos);
  Usage usage;
  usage.miss_text = TextAround{.before = "Today is\n", .after = " \"Friday\""};
  std::string told;
  append_reprise(told, usage);
  EXPECT_EQ(Json::parse(told)->find("miss_text")->dump(), R"({"before":"Today is\n","after":" \"Friday\""})");
}

TEST(OpenAiReply, BytesThatAreNoTextAreShown) {
  std::string out;
  append_chat_logprobs(out, {{.id = 1, .bytes = "\xC3", .logprob = -1}});
  EXPECT_EQ(
      out,
      "{\"content\":[{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-1.0,\"bytes\":[195],\"top_logprobs\":[]}],"
      "\"refusal\":null}");
  out.clear();
  std::uint64_t offset = 10;
  append_completion_logprobs(
      out, {{.id = 1, .bytes = "\xC3", .logprob = -1}, {.id = 2, .bytes = "\xA9!", .logprob = -2}}, offset);
  EXPECT_EQ(
      out,
      R"({"tokens":["bytes:\\xc3","bytes:\\xa9\\x21"],"token_logprobs":[-1.0,-2.0],"top_logprobs":[{},{}],)"
      R"("text_offset":[10,11]})");
  EXPECT_EQ(offset, 12u);
  out.clear();
  append_lossy_string(out, "a\xE2\x82\xACz\xE2\x82\xF0\x9F\x98\x80\xED\xA0\x80");
  EXPECT_EQ(out, "\"a€z\xEF\xBF\xBD😀\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace reprise::protocol::openai
