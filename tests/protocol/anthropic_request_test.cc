// Parsing of Anthropic's Messages bodies.

#include <gtest/gtest.h>

#include "protocol/anthropic/messages_request.h"
#include "protocol/api/api_error.h"

namespace reprise::protocol::anthropic {
namespace {

ApiRequest read(const std::string& members) {
  return read_messages_request(*Json::parse(R"({"max_tokens":8,)" + members + "}"), {});
}
const ChatPrompt& chat_of(const ApiRequest& request) {
  return std::get<ChatPrompt>(request.generate.prompt);
}
std::string messages_of(const std::string& members) {
  return chat_of(read(members)).messages.dump();
}
/// Returns "code field: …" of the body's error.
std::string refusal(const std::string& body) {
  try {
    read_messages_request(*Json::parse(body), {});
  } catch (const BadRequest& refused) {
    return refused.error().code + " " + refused.error().param;
  }
  return "accepted";
}
std::string refusal_of(const std::string& members) {
  return refusal(R"({"max_tokens":8,)" + members + "}");
}
const std::string kHello = R"("messages":[{"role":"user","content":"Hello"}])";
const std::string kTools =
    R"("tools":[{"name":"look","description":"Looks.","input_schema":{"type":"object"}},{"name":"go","input_schema":{}}])";

TEST(AnthropicRequest, ReadsAPlainMessage) {
  const ApiRequest request =
      read(kHello + R"(,"model":"m","temperature":0.5,"top_k":4,"stop_sequences":["a","b"],
      "stream":true,"metadata":{"user_id":"u"},"system":"Be brief.")");
  EXPECT_EQ(chat_of(request).messages.dump(),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}])");
  EXPECT_EQ(request.generate.model, "m");
  EXPECT_EQ(request.generate.max_tokens, 8u);
  EXPECT_EQ(request.generate.rules.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.generate.sampling.temperature, 0.5);
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.tool_choice.mode, ToolChoice::Mode::kNone);
}

TEST(AnthropicRequest, TheBillingHeaderIsNoPartOfThePrompt) {
  const std::string one = messages_of(
      kHello +
      R"(,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2; cch=1a2b3;"},{"type":"text","text":"You help."}])");
  const std::string other = messages_of(
      kHello +
      R"(,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2; cch=99fff;","cache_control":{"type":"ephemeral"}},{"type":"text","text":"You help."}])");
  EXPECT_EQ(one, other);
  EXPECT_EQ(one, R"([{"role":"system","content":"You help."},{"role":"user","content":"Hello"}])");
  EXPECT_EQ(messages_of(kHello + R"(,"system":"x-anthropic-billing-header: cch=1;\nYou help.")"), one);
  EXPECT_EQ(messages_of(kHello + R"(,"system":"x-anthropic-billing-header: cch=1;")"),
            R"([{"role":"user","content":"Hello"}])");
}

TEST(AnthropicRequest, AToolLoopBecomesCallsAndResults) {
  EXPECT_EQ(
      messages_of(R"("messages":[
        {"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"x"},
          {"type":"text","text":"I "},{"type":"text","text":"look."},
          {"type":"tool_use","id":"t1","name":"look","input":{"at":"sky"}},{"type":"tool_use","id":"t2","name":"go","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"blue"},
          {"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"is_error":true},
          {"type":"tool_result","tool_use_id":"t3"},
          {"type":"text","text":"go on"}]},
        {"role":"user","content":"please"}])"),
      R"([{"role":"user","content":"one\ntwo"},)"
      R"({"role":"assistant","content":"I look.","reasoning_content":"hm","tool_calls":[)"
      R"({"id":"t1","type":"function","function":{"name":"look","arguments":{"at":"sky"}}},)"
      R"({"id":"t2","type":"function","function":{"name":"go","arguments":{}}}]},)"
      R"({"role":"tool","tool_call_id":"t1","content":"blue"},{"role":"tool","tool_call_id":"t2","content":"a\nb"},)"
      R"({"role":"tool","tool_call_id":"t3","content":""},{"role":"user","content":"go on\nplease"}])");
}

TEST(AnthropicRequest, ToolsAndTheirChoice) {
  const ApiRequest request = read(kHello + "," + kTools);
  EXPECT_EQ(
      chat_of(request).tools.dump(),
      R"([{"type":"function","function":{"name":"look","description":"Looks.","parameters":{"type":"object"}}},)"
      R"({"type":"function","function":{"name":"go","parameters":{}}}])");
  EXPECT_EQ(request.tool_choice.mode, ToolChoice::Mode::kAuto);
  const auto mode = [](const std::string& choice) {
    return read(kHello + "," + kTools + R"(,"tool_choice":)" + choice).tool_choice;
  };
  EXPECT_EQ(mode(R"({"type":"any","disable_parallel_tool_use":true})").mode, ToolChoice::Mode::kRequired);
  EXPECT_EQ(mode(R"({"type":"tool","name":"go"})").name, "go");
  EXPECT_EQ(mode(R"({"type":"none"})").mode, ToolChoice::Mode::kNone);
  EXPECT_TRUE(chat_of(read(kHello + "," + kTools + R"(,"tool_choice":{"type":"none"})")).tools.is_null());
}

TEST(AnthropicRequest, CacheControlBecomesBreakpoints) {
  const ChatPrompt chat = chat_of(read(R"("system":[{"type":"text","text":"abc"},
        {"type":"text","text":"de","cache_control":{"type":"ephemeral","ttl":"1h"}}],
      "tools":[{"name":"look","input_schema":{}},{"name":"go","input_schema":{},"cache_control":{"type":"ephemeral"}}],
      "messages":[{"role":"user","content":"x"},
        {"role":"assistant","content":[{"type":"tool_use","id":"1","name":"go","input":{}},
          {"type":"tool_use","id":"2","name":"go","input":{},"cache_control":{"type":"ephemeral"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"four","cache_control":{"type":"ephemeral"}}]}])"));
  ASSERT_EQ(chat.breakpoints.size(), 4u);
  using In = ChatBreakpoint::In;
  EXPECT_EQ(chat.breakpoints[0].in, In::kTool);
  EXPECT_EQ(chat.breakpoints[0].index, 1u);
  EXPECT_EQ(chat.breakpoints[1].in, In::kContent);
  EXPECT_EQ(chat.breakpoints[1].index, 0u);
  EXPECT_EQ(chat.breakpoints[1].at, 6u) << "abc, a line break, de";
  EXPECT_EQ(chat.breakpoints[1].ttl, std::chrono::hours(1));
  EXPECT_EQ(chat.breakpoints[2].in, In::kCall);
  EXPECT_EQ(chat.breakpoints[2].index, 2u);
  EXPECT_EQ(chat.breakpoints[2].at, 1u);
  EXPECT_EQ(chat.breakpoints[3].index, 3u);
  EXPECT_EQ(chat.breakpoints[3].at, 4u);
  EXPECT_EQ(chat.breakpoints[3].ttl, std::chrono::minutes(5));
  const ChatPrompt whole = chat_of(read(kHello + R"(,"cache_control":{"type":"ephemeral"})"));
  ASSERT_EQ(whole.breakpoints.size(), 1u);
  EXPECT_EQ(whole.breakpoints[0].at, 5u);
}

TEST(AnthropicRequest, FindsBlocksAfterTheLastReply) {
  const ChatPrompt chat =
      chat_of(read(R"("system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"messages":[
      {"role":"user","content":[{"type":"text","text":"old"},{"type":"text","text":"one"}]},
      {"role":"assistant","content":[{"type":"text","text":"c"},{"type":"tool_use","id":"1","name":"go","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"d"},{"type":"text","text":"ef"}]},
        {"type":"text","text":"g"}]},
      {"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"j"}]}])"));
  ASSERT_EQ(chat.blocks.size(), 3u);
  EXPECT_EQ(chat.blocks[0].index, 3u);
  EXPECT_EQ(chat.blocks[0].at, 1u);
  EXPECT_EQ(chat.blocks[1].index, 4u) << "two messages that are one";
  EXPECT_EQ(chat.blocks[1].at, 1u);
  EXPECT_EQ(chat.blocks[2].at, 4u);
}

TEST(AnthropicRequest, AReplyGoesOnFromTheAssistantsLastMessage) {
  const ChatPrompt chat =
      chat_of(read(R"("messages":[{"role":"user","content":"x"},{"role":"assistant","content":"I"}])"));
  EXPECT_EQ(chat.messages.size(), 1u);
  EXPECT_EQ(chat.reply_opening, "I");
}

TEST(AnthropicRequest, ThinkingAndOutputConfig) {
  EXPECT_EQ(
      chat_of(read(kHello +
                   R"(,"thinking":{"type":"enabled","budget_tokens":1024},"output_config":{"effort":"low"})"))
          .template_extra.dump(),
      R"({"enable_thinking":true,"reasoning_effort":"low"})");
  EXPECT_EQ(
      read(kHello + R"(,"thinking":{"type":"enabled","budget_tokens":1024})").generate.rules.reasoning_budget,
      1024);
  EXPECT_EQ(chat_of(read(kHello + R"(,"thinking":{"type":"disabled"})")).template_extra.dump(),
            R"({"enable_thinking":false})");
  const auto constraint =
      read(kHello + R"(,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})")
          .generate.rules.constraint;
  EXPECT_EQ(constraint.kind, grammar::Constraint::Kind::kJsonSchema);
  EXPECT_EQ(constraint.field, "output_config.format.schema");
}

TEST(AnthropicRequest, RefusalsNameTheField) {
  EXPECT_EQ(refusal("{" + kHello + "}"), "missing max_tokens");
  EXPECT_EQ(refusal_of(R"("messages":[])"), "invalid_value messages");
  EXPECT_EQ(refusal_of(R"("messages":[{"role":"user","content":[]}])"), "invalid_value messages");
  EXPECT_EQ(refusal_of(R"("messages":[{"role":"user"}])"), "missing messages[0].content");
  EXPECT_EQ(refusal_of(R"("messages":[{"role":"tool","content":"x"}])"), "invalid_value messages[0].role");
  EXPECT_EQ(refusal_of(R"("messages":[{"role":"user","content":[{"type":"image","source":{}}]}])"),
            "unsupported_parameter messages[0].content[0].type");
  EXPECT_EQ(refusal_of(R"("messages":[{"role":"user","content":[{"type":"tool_result","content":"x"}]}])"),
            "missing messages[0].content[0].tool_use_id");
  EXPECT_EQ(refusal_of(kHello + R"(,"tools":[{"type":"web_search_20250305","name":"web_search"}])"),
            "unsupported_parameter tools[0].type");
  EXPECT_EQ(refusal_of(kHello + R"(,"tool_choice":{"type":"tool","name":"x"})"),
            "invalid_value tool_choice.name");
  EXPECT_EQ(refusal_of(kHello + R"(,"tool_choice":{"type":"any"})"), "invalid_value tool_choice");
  EXPECT_EQ(refusal_of(kHello + R"(,"thinking":{"type":"much"})"), "invalid_value thinking.type");
  EXPECT_EQ(refusal_of(kHello + R"(,"mcp_servers":[{"url":"x"}])"), "unsupported_parameter mcp_servers");
  EXPECT_EQ(refusal_of(kHello + R"(,"stop_sequences":[""])"), "invalid_value stop_sequences[0]");
  EXPECT_EQ(
      refusal_of(kHello +
                 R"(,"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"2h"}}])"),
      "invalid_value system[0].cache_control.ttl");
  const std::string kept = R"({"type":"text","text":"x","cache_control":{"type":"ephemeral"}})";
  EXPECT_EQ(refusal_of(kHello + R"(,"system":[)" + kept + "," + kept + "," + kept + "," + kept + "]"),
            "accepted");
  EXPECT_EQ(
      refusal_of(kHello + R"(,"system":[)" + kept + "," + kept + "," + kept + "," + kept + "," + kept + "]"),
      "too_many cache_control");
  EXPECT_EQ(
      refusal_of(
          R"("messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]}])"),
      "invalid_value messages");
}

}  // namespace
}  // namespace reprise::protocol::anthropic
