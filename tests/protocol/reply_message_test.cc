#include "protocol/reply/reply_message.h"

#include <gtest/gtest.h>

namespace reprise::protocol {
namespace {

TEST(ReplyMessage, IsBuiltFromThePieces) {
  EXPECT_EQ(assistant_message({}).dump(), R"({"role":"assistant","content":""})");
  EXPECT_EQ(assistant_message({ReplyReasoning{"a"}, ReplyReasoning{"b"}, ReplyContent{"c"}}).dump(),
            R"({"role":"assistant","content":"c","reasoning_content":"ab"})");
  EXPECT_EQ(assistant_message({ToolCallBegin{0, "x", "f"}, ToolCallArguments{0, "{\"a\""},
                               ToolCallArguments{0, ": 1}"}, ToolCallEnd{0}, ToolCallBegin{1, "y", "g"},
                               ToolCallEnd{1}})
                .dump(),
            R"({"role":"assistant","content":null,"tool_calls":[)"
            R"({"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},)"
            R"({"id":"y","type":"function","function":{"name":"g","arguments":""}}]})");
}

TEST(ReplyMessage, TakesTheFormTemplatesWant) {
  const Json message =
      assistant_message({ToolCallBegin{0, "x", "f"}, ToolCallArguments{0, "{\"a\": 1}"}, ToolCallEnd{0},
                         ToolCallBegin{1, "y", "g"}, ToolCallEnd{1}, ToolCallBegin{2, "z", "h"},
                         ToolCallArguments{2, "{\"a"}, ToolCallEnd{2}});
  const std::string calls =
      R"("tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":{"a":1}}},)"
      R"({"id":"y","type":"function","function":{"name":"g","arguments":{}}},)"
      R"({"id":"z","type":"function","function":{"name":"h","arguments":"{\"a"}}]})";
  EXPECT_EQ(template_form(message).dump(), R"({"role":"assistant","content":"",)" + calls);
  EXPECT_EQ(template_form(message, true).dump(), R"({"role":"assistant","content":null,)" + calls);

  const Json others =
      *Json::parse(R"([{"role":"user","content":null},{"role":"assistant","content":"x"},7])");
  EXPECT_EQ(template_form(others), others);
  EXPECT_EQ(template_form(Json{{"role", "assistant"}, {"content", "a"}, {"reasoning", "b"}}).dump(),
            R"({"role":"assistant","content":"a","reasoning":"b","reasoning_content":"b"})");
  Json list = Json::array();
  list.push_back(message);
  EXPECT_EQ(template_form(list).as_array()[0], template_form(message));
}

TEST(ReplyMessage, PartsBecomeOneTextForTemplates) {
  const auto content = [](const std::string& parts) {
    const Json message = *Json::parse(R"({"role":"assistant","content":)" + parts + "}");
    return template_form(message).find("content")->dump();
  };
  EXPECT_EQ(content(R"([{"type":"text","text":"a"},{"type":"text","text":"b"},{"text":"c"}])"),
            R"("a\nb\nc")");
  EXPECT_EQ(content(R"([{"type":"text","text":""},{"type":"text","text":"b\n"}])"), R"("\nb\n")");
  EXPECT_EQ(content(R"([{"type":"text","text":"a"}])"), R"("a")");
  EXPECT_EQ(content("[]"), R"("")");
  EXPECT_EQ(content(R"([{"type":"text","text":"Well."},{"type":"refusal","refusal":"No."}])"),
            R"("Well.\nNo.")");
  const std::string image = R"([{"type":"text","text":"a"},{"type":"image","text":"b"},7])";
  EXPECT_EQ(content(image), image);
}

}  // namespace
}  // namespace reprise::protocol
