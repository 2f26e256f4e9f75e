#include "protocol/sampled_turns.h"

#include <gtest/gtest.h>

#include <array>

#include "protocol/chat/chat_format.h"

namespace reprise::protocol {
namespace {

// Shows reasoning only after the last user message, and a call's arguments in one line.
constexpr const char* kThinking = R"({%- set ns = namespace(last=-1) -%}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor -%}
{%- for m in messages -%}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' and loop.index0 > ns.last %}<think>
{{ m.reasoning_content or '' }}
</think>

{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif -%})";

constexpr std::array<std::string_view, 4> kSpecial = {"<|im_start|>", "<|im_end|>", "<tool_call>",
                                                      "</tool_call>"};
constexpr TokenId kFirstSpecial = 1000;

/// A byte is a token, and so is each special text.
TokenList byte_tokens(const std::string& text) {
  TokenList tokens;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = std::string_view(text).substr(i);
    std::size_t special = 0;
    while (special < kSpecial.size() && !rest.starts_with(kSpecial[special])) ++special;
    const bool found = special < kSpecial.size();
    tokens.push_back(found ? kFirstSpecial + static_cast<TokenId>(special)
                           : static_cast<unsigned char>(rest[0]));
    i += found ? kSpecial[special].size() : 1;
  }
  return tokens;
}

ChatFormatPtr format_of(const char* source = kThinking) {
  auto made = ChatFormat::make(
      source, {.encode = byte_tokens,
               .encode_rest = byte_tokens,
               .is_special = [](TokenId id) { return id >= kFirstSpecial; },
               .bytes = [](TokenId id) -> std::size_t {
                 // 2000: two line breaks, a token that the model samples and the tokenizer never produces
                 if (id == 2000) return 2;
                 return id >= kFirstSpecial ? kSpecial[static_cast<std::size_t>(id - kFirstSpecial)].size()
                                            : 1;
               }});
  EXPECT_TRUE(made.ok());
  return *made;
}

Json parsed(const std::string& text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json.ok()) << text;
  return std::move(*json);
}

/// A conversation whose next reply was sampled with other white space and member order than templates write.
struct Conversation {
  ChatFormatPtr format = format_of();
  ChatPrompt chat{.messages = parsed(R"([{"role":"user","content":"read it"}])")};
  std::vector<SharedTurn> known{};

  std::vector<RecognizedTurn> recognized() const {
    return recognize_turns(chat.messages, [this](const std::string& name) -> SharedTurn {
      for (const SharedTurn& turn : known)
        if (turn->name == name) return turn;
      return nullptr;
    });
  }
  ShownChat show() const { return *format->show(chat, recognized()); }

  /// Adds the sampled reply, the client's `message` for it, and a result. Returns the tokens up to the
  /// reply's end.
  TokenList say(const std::string& reply, const std::string& message) {
    const ShownChat prompt = show();
    auto turn = std::make_shared<SampledTurn>();
    turn->message = format->message_of(chat, reply, prompt.text, "id" + std::to_string(known.size()));
    turn->name = turn_name(turn->message);
    const auto begin = format->turn_begin(prompt.text, prompt.tokens);
    EXPECT_TRUE(begin);
    TokenList tokens = prompt.tokens;
    for (const TokenId id : byte_tokens(reply)) {
      const bool doubled = id == '\n' && tokens.back() == '\n';
      if (doubled) tokens.pop_back();
      tokens.push_back(doubled ? 2000 : id);
    }
    turn->tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(*begin), tokens.end());
    turn->text = prompt.text.substr(prompt.text.rfind("<|im_start|>")) + reply;
    known.push_back(std::move(turn));
    chat.messages.push_back(parsed(message));
    chat.messages.push_back(parsed(R"({"role":"tool","tool_call_id":"x","content":"found"})"));
    return tokens;
  }
};

constexpr const char* kSampledReply =
    "I look.\n</think>\n\n<tool_call>\n{ \"name\":\"read\",\"arguments\":{\"to\" : 9, \"path\":\"a/b\"} "
    "}\n</tool_call>";

std::string returned(const std::string& arguments, const std::string& more = {},
                     const std::string& id = "call_id0_0") {
  return R"({"role":"assistant","content":null,)" + more + R"("tool_calls":[{"id":")" + id +
         R"(","type":"function","function":{"name":"read","arguments":)" + Json(arguments).dump() + "}}]}";
}

bool begins_with(const TokenList& tokens, const TokenList& beginning) {
  return tokens.size() > beginning.size() && std::equal(beginning.begin(), beginning.end(), tokens.begin());
}

TEST(SampledTurns, AReturnedCallKeepsItsTokensAndItsReasoning) {
  for (const char* reasoning : {"", R"("reasoning_content":"I look.",)", R"("reasoning":" I look.\n",)"}) {
    Conversation talk;
    const TokenList sampled = talk.say(kSampledReply, returned(R"({"path": "a/b", "to": 9.0})", reasoning));
    const ShownChat shown = talk.show();
    EXPECT_TRUE(begins_with(shown.tokens, sampled)) << shown.text;
    EXPECT_EQ(shown.tokens[sampled.size()], kFirstSpecial + 1) << "then the template closes the turn";
    EXPECT_EQ(shown.recognized_calls, 1u);
    EXPECT_TRUE(shown.text.ends_with(
        "<|im_end|>\n<|im_start|>tool\nfound<|im_end|>\n<|im_start|>assistant\n<think>\n"));
  }
}

TEST(SampledTurns, AChangedTurnIsRendered) {
  const auto shown = [](const std::string& message) {
    Conversation talk;
    talk.say(kSampledReply, message);
    const ShownChat with_turns = talk.show();
    EXPECT_EQ(with_turns.text, *talk.format->render(talk.chat));
    EXPECT_EQ(with_turns.tokens, byte_tokens(with_turns.text));
    return with_turns.recognized_calls;
  };
  EXPECT_EQ(shown(returned(R"({"path":"a/c","to":9})")), 0u) << "an argument";
  EXPECT_EQ(shown(returned(R"({"path":"a/b"})")), 0u) << "one argument less";
  EXPECT_EQ(shown(returned(R"({"path":"a/b","to":"9"})")), 0u) << "a text instead of a number";
  EXPECT_EQ(shown(returned(R"({"path":"a/b","to":9})", R"("reasoning_content":"I think.",)")), 0u)
      << "the reasoning";
  EXPECT_EQ(shown(returned(R"({"path":"a/b","to":9})", R"("content":"Well.",)")), 0u) << "a text before it";
  EXPECT_EQ(shown(returned(R"({"path":"a/b","to":9})", {}, "call_other_0")), 0u) << "another id";
}

TEST(SampledTurns, ReasoningThatTheTemplateHidesStaysHidden) {
  Conversation talk;
  talk.say(kSampledReply, returned(R"({"path":"a/b","to":9})"));
  talk.chat.messages.push_back(parsed(R"({"role":"user","content":"thanks"})"));
  const ShownChat shown = talk.show();
  EXPECT_EQ(shown.recognized_calls, 1u);
  EXPECT_EQ(shown.text.find("I look."), std::string::npos);
  EXPECT_NE(shown.text.find("<|im_start|>assistant\n<tool_call>\n{ \"name\":\"read\""), std::string::npos)
      << shown.text;
  EXPECT_EQ(shown.tokens, byte_tokens(shown.text));
}

TEST(SampledTurns, ALoopOfCallsKeepsAllOfThem) {
  Conversation talk;
  TokenList sampled;
  for (int i = 0; i < 5; ++i) {
    const std::string number = std::to_string(i);
    sampled =
        talk.say("Step " + number +
                     ".\n\n\n</think>\n\n<tool_call>\n{\"name\":\"read\",  \"arguments\": {\"n\":" + number +
                     ",\"a\":[1 ,2]}}\n</tool_call>",
                 returned("{\"a\":[1,2],\"n\":" + number + "}", {}, "call_id" + number + "_0"));
    EXPECT_TRUE(begins_with(talk.show().tokens, sampled)) << i;
  }
  EXPECT_EQ(talk.show().recognized_calls, 5u);
  // Without the third turn, that one is rendered; those after it are recognized as before.
  talk.known.erase(talk.known.begin() + 2);
  const ShownChat shown = talk.show();
  EXPECT_EQ(shown.recognized_calls, 4u);
  EXPECT_FALSE(begins_with(shown.tokens, sampled));
}

TEST(SampledTurns, TurnsWithoutCallsAreFoundByTheirSignature) {
  Conversation talk;
  const ShownChat prompt = talk.show();
  auto turn = std::make_shared<SampledTurn>();
  turn->message =
      parsed(R"({"role":"assistant","content":"It is.","reasoning_content":"Hm.","reprise_turn":"id"})");
  turn->name = turn_name(turn->message);
  EXPECT_EQ(turn->name, "id");
  turn->text = "<|im_start|>assistant\n<think>\nHm. \n</think>\n\nIt is.";
  turn->tokens = byte_tokens(turn->text);
  talk.known.push_back(turn);
  talk.chat.messages.push_back(turn->message);
  talk.chat.messages.push_back(parsed(R"({"role":"system","content":"note"})"));
  EXPECT_NE(talk.show().text.find("Hm. \n</think>\n\nIt is.<|im_end|>"), std::string::npos)
      << "with its blank";
  EXPECT_EQ(talk.show().text.find("reprise_turn"), std::string::npos);
  talk.chat.messages.as_array()[1]["reasoning_content"] = "Forged.";
  EXPECT_NE(talk.show().text.find("Forged.\n</think>"), std::string::npos) << "is shown as it came";
}

TEST(SampledTurns, SampledCallsAreShownByTemplatesWithoutCalls) {
  Conversation talk{.format = format_of(R"({%- for m in messages -%}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor -%}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}{# <tool_call> {"name": , "arguments": } </tool_call> #})")};
  ASSERT_TRUE(talk.format->reply_format().has_calls());
  const TokenList sampled =
      talk.say("So.<tool_call>\n{\"name\": \"read\", \"arguments\": {}}\n</tool_call>",
               R"({"role":"assistant","content":"So.","tool_calls":[{"id":"call_id0_0","type":"function",)"
               R"("function":{"name":"read","arguments":"{}"}}]})");
  EXPECT_TRUE(begins_with(talk.show().tokens, sampled));
  EXPECT_EQ(talk.show().recognized_calls, 1u);
}

TEST(SampledTurns, TurnTheTemplateOmitsIsRendered) {
  // It omits all but the last three messages.
  Conversation talk{.format = format_of(R"({%- for m in messages[-3:] -%}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor -%}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %})")};
  const std::string call = "<tool_call>\n{\"name\": \"read\", \"arguments\": { }}\n</tool_call>";
  talk.say(call, returned("{}"));
  EXPECT_EQ(talk.show().recognized_calls, 1u);
  talk.say(call, returned("{}", {}, "call_id1_0"));
  EXPECT_EQ(talk.recognized().size(), 2u);
  EXPECT_EQ(talk.show().recognized_calls, 1u) << "the other one is not in the prompt";
}

TEST(SampledTurns, MarksOfOthersAreNoMarks) {
  Conversation talk;
  talk.chat.messages.as_array()[0]["content"] = "sampledx1x2x3x4y0f sampled \x01 0";
  const TokenList sampled = talk.say(kSampledReply, returned(R"({"path":"a/b","to":9})"));
  EXPECT_TRUE(begins_with(talk.show().tokens, sampled));
}

SharedTurn turn_of(const std::string& name, std::size_t bytes) {
  return std::make_shared<SampledTurn>(SampledTurn{.name = name, .text = std::string(bytes, 'x')});
}

TEST(TurnCache, BoundEvictsFromTheLargestTenant) {
  TurnCache cache(100'000);
  cache.keep("small", 1, "a", turn_of("kept", 1000));
  for (int i = 0; i < 50; ++i) cache.keep("large", 1, "b", turn_of("t" + std::to_string(i), 1000));
  EXPECT_LE(cache.bytes(), 100'000u);
  EXPECT_NE(cache.find(1, "a", "kept"), nullptr);
  EXPECT_EQ(cache.find(1, "b", "t0"), nullptr);
  EXPECT_NE(cache.find(1, "b", "t49"), nullptr);
  cache.keep("large", 1, "b", turn_of("whole", 10'000));
  EXPECT_EQ(cache.find(1, "b", "whole"), nullptr) << "one that is larger than a quarter of all";
}

TEST(TurnCache, LeastRecentlyUsedGoFirst) {
  TurnCache cache(20'000);  // four turns
  for (const char* name : {"a", "b", "c", "d"}) cache.keep("", 1, "", turn_of(name, 1000));
  EXPECT_NE(cache.find(1, "", "a"), nullptr);
  cache.keep("", 1, "", turn_of("e", 1000));
  EXPECT_EQ(cache.find(1, "", "b"), nullptr);
  EXPECT_NE(cache.find(1, "", "a"), nullptr);
}

TEST(TurnCache, NamespacesAndModelsShareNothing) {
  TurnCache cache;
  cache.keep("t", 1, "salt", turn_of("name", 10));
  EXPECT_EQ(cache.find(1, "other", "name"), nullptr);
  EXPECT_EQ(cache.find(2, "salt", "name"), nullptr);
  EXPECT_NE(cache.find(1, "salt", "name"), nullptr);
  const std::size_t bytes = cache.bytes();
  cache.keep("t", 1, "salt", turn_of("name", 10));
  EXPECT_EQ(cache.bytes(), bytes) << "the same again takes no more";
}

TEST(SampledTurn, IsReadAsItWasWritten) {
  SampledTurn turn{.name = "call_1",
                   .message = parsed(R"({"role":"assistant","content":"é"})"),
                   .text = std::string("a\0\xff", 3),
                   .tokens = {1, 2, 70000}};
  const std::vector<std::byte> bytes = to_bytes(turn);
  const auto read = sampled_turn_of(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->name, turn.name);
  EXPECT_EQ(read->message.dump(), turn.message.dump());
  EXPECT_EQ(read->text, turn.text);
  EXPECT_EQ(read->tokens, turn.tokens);
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{20}, bytes.size() - 1})
    EXPECT_FALSE(sampled_turn_of(std::span(bytes).first(size))) << size;
}

}  // namespace
}  // namespace reprise::protocol
