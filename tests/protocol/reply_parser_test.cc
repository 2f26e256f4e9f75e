#include "protocol/reply/reply_parser.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/protocol/reply_samples.h"

namespace reprise::protocol::test {
namespace {

TEST(ReplyParser, EachSampleBecomesItsPieces) {
  for (const Sample& sample : samples()) {
    const ReplyPieces pieces =
        parsed(detect_reply_format(sample.source), sample_options(sample.tail), sample.reply);
    EXPECT_EQ(shown(pieces), sample.pieces) << "reply: " << sample.reply;
  }
}

TEST(ReplyParser, WithoutToolsMarksOfCallsAreContent) {
  ReplyParserOptions options = sample_options("<think>\n");
  options.parse_tools = false;
  EXPECT_EQ(shown(parsed(detect_reply_format(kHermes), options, "a</think>\n<tool_call>{\"name\": \"now\"}")),
            "reasoning \"a\"\ncontent \"<tool_call>{\\\"name\\\": \\\"now\\\"}\"\n");
}

TEST(ReplyParser, WithoutReasoningItsTextStaysInTheContent) {
  ReplyParserOptions options = sample_options();
  options.parse_reasoning = false;
  const std::string reply =
      "\n<think>\na <tool_call>\n</think>\n\nb\n<tool_call>{\"name\": \"now\"}</tool_call>";
  EXPECT_EQ(shown(parsed(detect_reply_format(kHermes), options, reply)),
            "content \"\\n<think>\\na <tool_call>\\n</think>\\n\\nb\"\n"
            "call 0 now #call_r1_0\narguments {}\nend 0\n");
  options.parse_tools = false;
  EXPECT_EQ(shown(parsed(detect_reply_format(kHermes), options, reply)),
            "content " + Json(reply).dump() + "\n");
}

TEST(ReplyParser, CallInReasoningStaysBeforeMoreReasoning) {
  const std::string reply = "a <tool_call>b</think>\n<think>c</think>d";
  EXPECT_EQ(shown(parsed(detect_reply_format(kHermes), sample_options("<think>\n"), reply)),
            "reasoning \"a <tool_call>bc\"\ncontent \"d\"\n");
}

TEST(ReplyParser, WithNothingToReadNothingIsHeldBack) {
  ReplyParserOptions options = sample_options();
  ReplyParser plain(detect_reply_format(kPlain), options);
  EXPECT_EQ(shown(plain.push("\n\n<think>\n")), "content \"\\n\\n<think>\\n\"\n");
  options.parse_tools = options.parse_reasoning = false;
  ReplyParser told(detect_reply_format(kHermes), options);
  EXPECT_EQ(shown(told.push("\n\n<tool_call>\n")), "content \"\\n\\n<tool_call>\\n\"\n");
}

TEST(ReplyParser, HoldsBackOnlyWhatMayBecomeAMark) {
  ReplyParser parser(detect_reply_format(kHermes), sample_options());
  EXPECT_EQ(shown(parser.push("a < b <tool")), "content \"a < b \"\n");
  EXPECT_EQ(shown(parser.push("s\n\n")), "content \"<tools\"\n");
  EXPECT_EQ(shown(parser.push("c")), "content \"\\n\\nc\"\n");
}

TEST(ReplyParser, ArgumentsStreamAsTheyCome) {
  ReplyParser json(detect_reply_format(kHermes), sample_options());
  EXPECT_EQ(shown(json.push("<tool_call>{\"name\": \"now\"")), "call 0 now #call_r1_0\n");
  EXPECT_EQ(json.calls(), 1u);
  EXPECT_EQ(shown(json.push(", \"arguments\": {\"a")), "arguments {\"a\n");
  EXPECT_EQ(shown(json.push("\": 1}")), "arguments \": 1}\n");
  EXPECT_EQ(shown(json.push("}")), "end 0\n");
  EXPECT_EQ(shown(json.push("\n</tool_call>")), "");

  ReplyParser xml(detect_reply_format(kXml), sample_options());
  EXPECT_EQ(shown(xml.push("<tool_call>\n<function=weather>")), "call 0 weather #call_r1_0\n");
  EXPECT_EQ(shown(xml.push("\n<parameter=city>\nO")), "arguments {\"city\": \"O\n");
  EXPECT_EQ(shown(xml.push("slo\n</parameter>\n<parameter=days>\n1")), "arguments slo\", \"days\": \n");
  EXPECT_EQ(shown(xml.push("2\n</parameter>")), "arguments 12\n");
  EXPECT_EQ(shown(xml.push("\n</function>")), "arguments }\nend 0\n");
}

TEST(ReplyParser, AForcedOpeningIsPartOfTheReply) {
  const ReplyFormat format = detect_reply_format(kXml);
  for (const bool tail_has_opening : {false, true}) {
    ReplyParserOptions options = sample_options();
    const std::string tail = "<|im_start|>assistant\n<think>\n";
    options.reply_opening = tool_opening(format, "now", tail).value();
    options.prompt_tail = tail_has_opening ? tail + options.reply_opening : tail;
    EXPECT_EQ(shown(parsed(format, options, "<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>")),
              "call 0 now #call_r1_0\narguments {\"a\": 1}\nend 0\n");
  }
}

TEST(ReplyParser, ARunOfNewlinesIsHeldUpToItsBound) {
  const ReplyFormat format = detect_reply_format(kHermes);
  const std::string few(kMaxNewlinesHeld, '\n');
  const std::string call = "<tool_call>{\"name\": \"now\"}</tool_call>";
  EXPECT_EQ(std::get<ReplyContent>(parsed(format, sample_options(), "a" + few + call)[0]).text, "a");
  ReplyParser parser(format, sample_options());
  EXPECT_EQ(std::get<ReplyContent>(parser.push("a" + few + "\n")[0]).text, "a" + few + "\n");
}

TEST(ReplyParser, ACallThatIsTooLongToHoldIsContent) {
  const ReplyFormat format = detect_reply_format(kHermes);
  const std::string reply = "<tool_call>{\"arguments\": {\"a\": \"" + std::string(kMaxCallHeld, 'x') +
                            "\"}, \"name\": \"now\"}</tool_call>";
  const ReplyPieces pieces = joined(parsed(format, sample_options(), reply));
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(std::get<ReplyContent>(pieces[0]).text, reply);
  // A value that must be complete to be converted is returned as far as it came.
  const std::string value(kMaxCallHeld + 10, '1');
  const std::string xml = "<tool_call><function=now><parameter=a>" + value;
  const ReplyPieces ended = joined(parsed(detect_reply_format(kXml), sample_options(), xml));
  ASSERT_EQ(ended.size(), 4u);
  EXPECT_EQ(std::get<ToolCallArguments>(ended[1]).json.size() + std::get<ReplyContent>(ended[3]).text.size(),
            value.size() + std::string_view("{\"a\": ").size());
}

TEST(ReplyParser, ShortIdsAreNineLettersAndDigitsAndDiffer) {
  ReplyParserOptions options = sample_options();
  const auto ids = [&options](std::string seed) {
    options.id_seed = std::move(seed);
    const ReplyPieces pieces =
        parsed(detect_reply_format(kMistral), options, "[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]now[ARGS]{}");
    return std::pair(std::get<ToolCallBegin>(pieces.at(0)).id, std::get<ToolCallBegin>(pieces.at(3)).id);
  };
  const auto first = ids("a");
  EXPECT_EQ(first.first.size(), 9u);
  EXPECT_EQ(first.first.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
            std::string::npos);
  EXPECT_NE(first.first, first.second);
  EXPECT_EQ(first, ids("a"));
  EXPECT_NE(first.first, ids("b").first);
}

}  // namespace
}  // namespace reprise::protocol::test
