#include "protocol/chat/chat_request.h"

#include <gtest/gtest.h>

#include "protocol/reply/reply_message.h"

namespace reprise::protocol {
namespace {

using Mode = ToolChoice::Mode;

constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}])";
constexpr const char* kPrompt = "<|im_start|>assistant\n";

ChatFormatPtr format() {
  return *ChatFormat::make("<think>\n\n</think>\n\n<tool_call>{{ tool_call | tojson }}</tool_call>", {});
}

GenerateRequest request() {
  return {.prompt = ChatPrompt{.messages = Json::array(), .tools = *Json::parse(kTools)}};
}

TEST(ChatRequest, AForcedCallNeedsNoHttp) {
  const ChatFormatPtr chat = format();
  GenerateRequest asked = request();
  const auto parsing = prepare_chat(chat.get(), {.mode = Mode::kNamed, .name = "now"}, kPrompt, asked);
  ASSERT_TRUE(parsing.ok()) << parsing.error().message;
  const std::string& opening = std::get<ChatPrompt>(asked.prompt).reply_opening;
  EXPECT_EQ(opening, "<tool_call>\n{\"name\": \"now\", \"arguments\":");
  EXPECT_EQ(asked.rules.constraint.kind, grammar::Constraint::Kind::kCalls);
  EXPECT_EQ(asked.rules.constraint.field, "tools");

  Started started;
  started.prompt_tail = kPrompt + opening;
  ReplyParser parser = reply_parser(chat.get(), *parsing, started, "seed");
  ReplyPieces pieces = parser.push(" {}}\n</tool_call>");
  for (ReplyPiece& piece : parser.finish()) pieces.push_back(std::move(piece));
  const Json message = assistant_message(pieces);
  ASSERT_NE(message.find_array("tool_calls"), nullptr) << message.dump() << opening;
  EXPECT_EQ(*(*message.find_array("tool_calls"))[0].find("function")->find_string("name"), "now");
}

TEST(ChatRequest, ImpossibleForcedCallsAreRefused) {
  GenerateRequest plain = request();
  const auto no_format = prepare_chat(nullptr, {.mode = Mode::kRequired}, kPrompt, plain);
  ASSERT_FALSE(no_format.ok());
  EXPECT_EQ(no_format.error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(no_format.error().param, "tool_choice");

  GenerateRequest continued = request();
  std::get<ChatPrompt>(continued.prompt).reply_opening = "It is";
  const auto refused =
      prepare_chat(format().get(), {.mode = Mode::kNamed, .name = "now"}, kPrompt, continued);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_FALSE(continued.rules.constraint);
}

TEST(ChatRequest, AFreeChoiceLeavesARequestAlone) {
  GenerateRequest asked = request();
  const auto parsing = prepare_chat(format().get(), {.mode = Mode::kAuto}, "", asked);
  ASSERT_TRUE(parsing.ok());
  EXPECT_TRUE(parsing->parse_tools);
  EXPECT_FALSE(asked.rules.constraint) << "no tool is strict";
  EXPECT_TRUE(std::get<ChatPrompt>(asked.prompt).reply_opening.empty());
  EXPECT_FALSE(prepare_chat(format().get(), {}, "", asked)->parse_tools) << "no tool may be called";
}

}  // namespace
}  // namespace reprise::protocol
