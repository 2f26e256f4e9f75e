// Chat formats: detection in a template, and handling of prompts and replies.

#include "protocol/chat/chat_format.h"

#include <gtest/gtest.h>

namespace reprise::protocol {
namespace {

// ChatML with reasoning, which is stripped before the last user message.
constexpr const char* kTemplate = R"({%- set ns = namespace(last=0) -%}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor -%}
{{- bos_token -}}
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{% if m.reasoning_content and loop.index0 > ns.last %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}{% if m.tool_calls %}<tool_call>{{ m.tool_calls[0].function.arguments.city }}</tool_call>{% endif %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif -%})";

constexpr TokenId kStart = 1000, kEnd = 1001;

/// A byte is a token, and so are the two tags.
TokenList encode(const std::string& text) {
  TokenList tokens;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = std::string_view(text).substr(i);
    const auto mark = [&](std::string_view name, TokenId id) {
      if (!rest.starts_with(name)) return false;
      tokens.push_back(id);
      i += name.size();
      return true;
    };
    if (mark("<|im_start|>", kStart) || mark("<|im_end|>", kEnd)) continue;
    tokens.push_back(static_cast<unsigned char>(text[i++]));
  }
  return tokens;
}

ChatFormatPtr format(const char* source = kTemplate) {
  auto made = ChatFormat::make(
      source,
      {.bos = "<s>", .eos = "</s>", .encode = encode, .is_special = [](TokenId id) { return id >= kStart; }});
  EXPECT_TRUE(made.ok());
  return *made;
}

Json message(const char* role, const char* content) {
  return Json{{"role", role}, {"content", content}};
}
ChatPrompt chat_prompt(Json::Array messages) {
  return {.messages = Json(std::move(messages))};
}

TEST(ChatFormat, RenderEndsWithTheReplysOpening) {
  ChatPrompt prompt = chat_prompt({message("user", "hi")});
  prompt.reply_opening = "So";
  EXPECT_EQ(*format()->render(prompt),
            "<s><|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\nSo");
}

TEST(ChatFormat, ReasoningOptionsAreReadAndRefusalClosesIt) {
  const auto asks = [](const char* extra) {
    ChatPrompt prompt = chat_prompt({message("user", "hi")});
    prompt.template_extra = *Json::parse(extra);
    return format()->asks_for_reasoning(prompt);
  };
  EXPECT_FALSE(asks("{}"));
  EXPECT_TRUE(asks(R"({"enable_thinking": true})"));
  EXPECT_TRUE(asks(R"({"reasoning_effort": "low"})"));
  EXPECT_FALSE(asks(R"({"reasoning_effort": "none"})"));
  EXPECT_FALSE(asks(R"({"reasoning_effort": "high", "enable_thinking": false})"));
  ChatPrompt closed = chat_prompt({message("user", "hi")});
  closed.template_extra = Json{{"enable_thinking", false}};
  EXPECT_TRUE(format()->render(closed)->ends_with("<think>\n</think>"));  // the template always opens it
}

TEST(ChatFormat, ContentAndArgumentsAreConvertedForTemplates) {
  auto messages =
      Json::parse(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"city\":\"Rome\"}"}}]}])");
  ASSERT_TRUE(messages.ok());
  EXPECT_EQ(
      *format()->render({.messages = *messages, .add_generation_prompt = false}),
      "<s><|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n<tool_call>Rome</tool_call><|im_end|>\n");
}

TEST(ChatFormat, WhatATemplateRefusesIsTheClientsFault) {
  const auto refused = format("{{ raise_exception('roles must alternate') }}")->render(chat_prompt({}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(refused.error().param, "messages");
  EXPECT_NE(refused.error().message.find("roles must alternate"), std::string::npos);
}

TEST(ChatFormat, ATemplateThatDoesNotCompileIsNone) {
  const auto wrong = ChatFormat::make("{% if %}", {});
  ASSERT_FALSE(wrong.ok());
  EXPECT_TRUE(wrong.error().starts_with("chat template: ")) << wrong.error();
}

TEST(ChatFormat, KnowsWhereMessagesBegin) {
  const ChatFormatPtr known = format();
  const TokenList prompt =
      encode(*known->render(chat_prompt({message("system", "s"), message("user", "hi")})));
  const MessageBorders borders = known->borders(prompt);
  ASSERT_TRUE(borders.last_user && borders.last_opener);
  EXPECT_EQ(prompt[*borders.last_user - 1], kStart);
  EXPECT_EQ(prompt[*borders.last_user], 'u');
  EXPECT_EQ(prompt[*borders.last_opener], 'a');
  EXPECT_EQ(borders.first_user, borders.last_user);
}

TEST(ChatFormat, WithoutTokenizerPositionsAreUnknown) {
  const auto made = ChatFormat::make(kTemplate, {});
  ASSERT_TRUE(made.ok());
  EXPECT_FALSE((*made)->shape().known());
  EXPECT_FALSE((*made)->borders(TokenList{kStart, 'u'}).last_user);
  EXPECT_TRUE(
      (*made)->history_after(chat_prompt({message("user", "hi")}), message("assistant", "x")).empty());
}

TEST(ChatFormat, RepliesAreReadByTheMarksOfTheTemplate) {
  const Json said =
      format()->message_of(chat_prompt({message("user", "hi")}),
                           "hm\n</think>\n\nYes.<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
                           "<|im_start|>assistant\n<think>\n", "seed");
  EXPECT_EQ(*said.find_string("content"), "Yes.");
  EXPECT_EQ(*said.find_string("reasoning_content"), "hm");
  EXPECT_EQ(*said.find_array("tool_calls")->front().find_string("id"), "call_seed_0");
}

TEST(ChatFormat, ForcedCallClosesReasoningOpenedByThePrompt) {
  const ChatFormatPtr known = format();
  EXPECT_EQ(known->call_opening("f", "<|im_start|>assistant\n<think>\n"),
            "\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\":");
  EXPECT_EQ(format("{{ messages }}")->call_opening("f", ""), std::nullopt);
}

TEST(ChatFormat, TheHistoryIsWhatTheNextTurnWillBeginWith) {
  const ChatFormatPtr known = format();
  ChatPrompt now = chat_prompt({message("user", "hi")});
  now.reply_opening = "not part of it";
  const Json said{{"role", "assistant"}, {"content", "Yes."}, {"reasoning_content", "hm"}};
  EXPECT_EQ(known->history_after(now, said),
            encode("<s><|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n<|im_start|>"))
      << "its thinking is gone, and it ends with the last mark before the next text";
}

/// Returns the prompt's tokens up to each breakpoint, as text; special tokens as | and !.
std::vector<std::string> kept(const ChatFormat& format, const ChatPrompt& prompt) {
  const ShownChat shown_chat = *format.show(prompt, {});
  const TokenList& tokens = shown_chat.tokens;
  std::vector<std::string> kept;
  for (const std::uint32_t end : format.breakpoints(prompt, {}, prompt.breakpoints, shown_chat)) {
    std::string shown;
    for (std::uint32_t i = 0; i < end; ++i) {
      shown += tokens[i] == kStart ? '|' : tokens[i] == kEnd ? '!' : static_cast<char>(tokens[i]);
    }
    kept.push_back(shown);
  }
  return kept;
}

TEST(ChatFormat, BreakpointsStandAtTheLastTokenBeforeThem) {
  constexpr const char* kWithTools = R"({%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}<|im_end|>{% endfor %}{% endif -%}
{%- for m in messages -%}<|im_start|>{{ m.role }}
{{ m.content | trim }}{% for c in m.tool_calls or [] %}<|im_start|>{{ c.function.arguments | tojson }}{% endfor %}<|im_end|>
{% endfor -%})";
  ChatPrompt prompt = chat_prompt(
      {message("system", "abc\ndef\n"), message("user", "one<|im_end|>two"), message("user", "x")});
  Json call{{"function", Json{{"name", "f"}, {"arguments", Json{{"a", 1}}}}}};
  Json calling = message("assistant", "so");
  calling["tool_calls"] = Json(Json::Array{call, call});
  prompt.messages.push_back(std::move(calling));
  Json tools = Json::array();
  tools.push_back(Json{{"f", 1}});
  tools.push_back(Json{{"g", 2}});
  prompt.tools = tools;
  using In = ChatBreakpoint::In;
  prompt.breakpoints = {{.in = In::kTool, .index = 0},
                        {.index = 0, .at = 3},
                        {.index = 0, .at = 8},
                        {.index = 1, .at = 14},
                        {.in = In::kCall, .index = 3, .at = 0},
                        {.index = 9},
                        {.index = 0, .at = 99},
                        {.in = In::kCall, .index = 0}};
  const std::string tools_text = R"(|system
{"f": 1}!{"g": 2}!)";
  for (const bool walks : {false, true}) {
    ChatFormat::Tokens how{.encode = encode, .is_special = [](TokenId id) { return id >= kStart; }};
    if (walks) {
      how.bytes = [](TokenId id) -> std::size_t { return id == kStart ? 12 : id == kEnd ? 10 : 1; };
    }
    const auto made = ChatFormat::make(kWithTools, how);
    ASSERT_TRUE(made.ok());
    const auto places = kept(**made, prompt);
    ASSERT_EQ(places.size(), 8u);
    EXPECT_EQ(places[0], "|system\n{\"f\": 1") << "its text ends with a bracket, which comes behind the mark";
    EXPECT_EQ(places[1], tools_text + "|system\nabc") << "in the middle of a text";
    EXPECT_EQ(places[2], tools_text + "|system\nabc\ndef") << "where a text ends, also one that is trimmed";
    EXPECT_EQ(places[3], tools_text + "|system\nabc\ndef!\n|user\none!t") << "a special token within";
    EXPECT_EQ(places[4],
              tools_text + "|system\nabc\ndef!\n|user\none!two!\n|user\nx!\n|assistant\nso|{\"a\": 1");
    for (std::size_t i = 5; i < 8; ++i) EXPECT_EQ(places[i], "") << "no such place: " << i;
  }
}

TEST(ChatFormat, FindsBoundariesOfTheLastBlocks) {
  const auto messages =
      Json::parse(R"([{"role":"user","content":[{"type":"text","text":"0"},{"type":"text","text":"1"}]},
      {"role":"assistant","content":"a"},{"role":"tool","content":"one"},{"role":"tool","content":"two"},
      {"role":"user","content":[{"type":"text","text":"x "},{"type":"text","text":""},{"type":"text","text":"yz"}]},
      {"role":"system","content":"note"}])");
  ASSERT_TRUE(messages.ok());
  ChatPrompt prompt{.messages = *messages};
  prompt.breakpoints = last_blocks(prompt);
  const std::string before = "|user\n0\n1!\n|assistant\na!\n|tool\none";
  EXPECT_EQ(
      kept(
          *format("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"),
          prompt),
      (std::vector<std::string>{before + "!\n|tool\ntwo!\n|user\nx \n", before + "!\n|tool\ntwo!\n|user\nx ",
                                before}));
  prompt.messages = Json(Json::Array{message("user", "one\ntwo\nthree\nfour\nfive\nsix")});
  prompt.blocks = {{.at = 3}, {.at = 7}, {.at = 13}, {.at = 18}, {.at = 23}};
  const std::vector<ChatBreakpoint> last = last_blocks(prompt);
  ASSERT_EQ(last.size(), 4u) << "a state each";
  EXPECT_EQ(last.front().at, 23u);
  EXPECT_EQ(last.back().at, 7u);
  prompt.messages.push_back(message("assistant", "said"));
  EXPECT_TRUE(last_blocks(prompt).empty());
}

}  // namespace
}  // namespace reprise::protocol
