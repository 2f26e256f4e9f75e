#include "protocol/reply/reply_format.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "protocol/reply/reply_message.h"
#include "tests/models/oracle_folder.h"
#include "tests/protocol/reply_samples.h"

namespace reprise::protocol::test {
namespace {

using Calls = ReplyFormat::Calls;

TEST(ReplyFormat, IsFoundFromTheTemplate) {
  EXPECT_EQ(detect_reply_format("").calls, Calls::kNone);
  EXPECT_FALSE(detect_reply_format("").has_reasoning());
  EXPECT_EQ(detect_reply_format(kHermes).calls, Calls::kJson);
  EXPECT_EQ(detect_reply_format(kHermes).think_nothing, "<think>\n\n</think>\n\n");
  EXPECT_EQ(detect_reply_format(kXml).calls, Calls::kXml);
  EXPECT_EQ(detect_reply_format(kLlama).calls, Calls::kBareJson);
  EXPECT_EQ(detect_reply_format(kMistral).calls, Calls::kNamed);
  EXPECT_EQ(detect_reply_format(kMistralList).calls, Calls::kJson);
  EXPECT_EQ(detect_reply_format(kMistral).think_open, "[THINK]");
  // Calls with tagged keys and values share their tags with other formats.
  EXPECT_EQ(detect_reply_format("<tool_call>f<arg_key>k</arg_key>").calls, Calls::kNone);
}

TEST(ReplyFormat, KnowsWhetherAPromptLeavesThinkingOpen) {
  const ReplyFormat format = detect_reply_format(kHermes);
  EXPECT_TRUE(opens_thinking(format, "assistant\n<think>\n"));
  EXPECT_TRUE(opens_thinking(format, "Assistant: <think>"));
  EXPECT_FALSE(opens_thinking(format, "<think>\n\n</think>\n\n"));
  EXPECT_FALSE(opens_thinking(format, "what is <think>\nassistant\n"));
  EXPECT_FALSE(opens_thinking(detect_reply_format(kPlain), "<think>\n"));
}

TEST(ReplyFormat, ReasoningIsClosedAsTheTemplateWritesIt) {
  const ReplyFormat format = detect_reply_format(kHermes);
  EXPECT_EQ(reasoning_end(format, "<think>\n"), "\n</think>\n\n");
  EXPECT_EQ(reasoning_end(format, "<think>\nHm."), "\n</think>\n\n");
  EXPECT_EQ(reasoning_end(format, "<think>\nHm.\n"), "</think>\n\n");
  EXPECT_EQ(reasoning_end(format, "<think>\nHm.\n</"), "think>\n\n");
}

TEST(ReplyFormat, OpeningsForceACall) {
  const auto opening = [](std::string_view source, std::string_view name, std::string_view tail) {
    return tool_opening(detect_reply_format(source), name, tail).value_or("nothing");
  };
  EXPECT_EQ(opening(kPlain, "f", ""), "nothing");
  EXPECT_EQ(opening(kHermes, "f\"", ""), "nothing");
  EXPECT_EQ(opening(kHermes, "", ""), "<tool_call>\n{\"name\": \"");
  EXPECT_EQ(opening(kHermes, "f", "<think>\n"),
            "\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\":");
  EXPECT_EQ(opening(kHermes, "f", "<think>"),
            "\n\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\":");
  EXPECT_EQ(opening(kHermes, "f", "<think>\n\n</think>\n\n"),
            "<tool_call>\n{\"name\": \"f\", \"arguments\":");
  EXPECT_EQ(opening(kNemotron, "f", "<think>\n"),
            "\n</think>\n\n<TOOLCALL>[{\"name\": \"f\", \"arguments\":");
  EXPECT_EQ(opening(kXml, "f", "<think>\n"), "\n</think>\n\n<tool_call>\n<function=f>\n");
  EXPECT_EQ(opening(kXml, "", ""), "<tool_call>\n<function=");
  EXPECT_EQ(opening(kLlama, "f", ""), "{\"name\": \"f\", \"parameters\":");
  EXPECT_EQ(opening(kMistral, "f", ""), "[TOOL_CALLS]f[ARGS]");
  EXPECT_EQ(opening(kMistralList, "", ""), "[TOOL_CALLS][{\"name\": \"");
  EXPECT_EQ(opening(kKimi, "f", ""),
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>");
  EXPECT_EQ(opening(kDeepSeek, "f", ""),
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n");
  EXPECT_EQ(opening(kLfm, "f", ""), "<|tool_call_start|>[f(");
}

// The parser reads an opening and the rest of a matching call.
TEST(ReplyFormat, OpeningsAreReadByTheParser) {
  for (const auto& [source, rest] : std::map<std::string_view, std::string>{
           {kHermes, " {\"a\": 1}}\n</tool_call>"},
           {kXml, "<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"},
           {kSeed, "<parameter=a>1</parameter>\n</function>\n</seed:tool_call>"},
           {kNemotron, " {\"a\": 1}}]</TOOLCALL>"},
           {kJamba, " {\"a\": 1}}]</tool_calls>"},
           {kLlama, " {\"a\": 1}}"},
           {kMistral, "{\"a\": 1}"},
           {kMistralList, " {\"a\": 1}}]"},
           {kGranite, " {\"a\": 1}}]"},
           {kKimi, "{\"a\": 1}<|tool_call_end|><|tool_calls_section_end|>"},
           {kDeepSeek, "{\"a\": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
           {kDeepSeekPlain, "{\"a\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
           {kLfm, "a=1)]<|tool_call_end|>"}}) {
    const ReplyFormat format = detect_reply_format(source);
    ReplyParserOptions options = sample_options(format.think_open + "\n");
    options.reply_opening = tool_opening(format, "now", options.prompt_tail).value();
    const Json message = assistant_message(parsed(format, options, rest));
    EXPECT_TRUE(message.find("content")->is_null()) << message.dump();
    ASSERT_NE(message.find_array("tool_calls"), nullptr) << source;
    const Json& function = *message.find_array("tool_calls")->at(0).find("function");
    EXPECT_EQ(*function.find_string("name"), "now");
    EXPECT_EQ(*function.find_string("arguments"), "{\"a\": 1}");
  }
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The formats found by template: how calls are written, and whether there is reasoning.
using FoundFormats = std::map<std::string, std::pair<Calls, bool>>;

/// Expects that each call a template writes into the history is parsed as that call, for at least `at_least`
/// templates.
void expect_read_back(const std::filesystem::path& folder, const FoundFormats& expected,
                      std::size_t at_least) {
  std::size_t read_back = 0;
  for (const auto& [name, found] : expected) {
    SCOPED_TRACE(name);
    const auto file = Json::parse(read(folder / (name + ".cases.json")));
    ASSERT_TRUE(file.ok());
    const ReplyFormat format = detect_reply_format(read(folder / *file->find_string("template")));
    EXPECT_EQ(format.calls, found.first);
    EXPECT_EQ(format.has_reasoning(), found.second);
    for (const Json& one : *file->find_array("cases")) {
      const std::string* output = one.find_string("output");
      const Json::Array& messages = *one.find("context")->find_array("messages");
      if (output == nullptr || messages.size() < 2 || messages[1].find("tool_calls") == nullptr) continue;
      const Json& call = *messages[1].find_array("tool_calls")->back().find("function");
      const bool bare = format.calls == Calls::kBareJson;
      const std::size_t at = output->rfind(bare ? "{\"name\": \"" : format.call_open);
      if (!format.has_calls() || at == std::string::npos) continue;  // the template omits calls

      ReplyParserOptions options;
      options.tools = *one.find("context")->find("tools");
      const ReplyPieces pieces = parsed(format, options, std::string_view(*output).substr(at));
      ASSERT_GE(pieces.size(), 3u);
      EXPECT_EQ(std::get<ToolCallBegin>(pieces[0]).name, *call.find_string("name"));
      const auto arguments = Json::parse(std::get<ToolCallArguments>(pieces[1]).json);
      ASSERT_TRUE(arguments.ok());
      EXPECT_EQ(*arguments, *call.find("arguments"));
      ++read_back;
    }
  }
  EXPECT_GE(read_back, at_least);
}

TEST(ReplyFormat, ReadsBackWhatTemplatesOfTheProjectWrite) {
  const FoundFormats expected = {{"builtin", {Calls::kJson, true}},
                                 {"headers", {Calls::kNone, false}},
                                 {"instructions", {Calls::kNone, false}},
                                 {"xml-calls", {Calls::kXml, true}}};
  expect_read_back(reprise::test::data_folder() / "templates", expected, 4);
}

TEST(ReplyFormat, ReadsBackWhatPublishedTemplatesWrite) {
  const std::filesystem::path folder = models::test::oracle_folder() / "templates";
  SKIP_WITHOUT(folder);
  const FoundFormats expected = {
      {"HuggingFaceTB-SmolLM3-3B", {Calls::kNone, true}},
      {"Kimi-K2-Instruct", {Calls::kNamed, false}},
      {"LFM2.5-Instruct", {Calls::kPython, true}},
      {"NVIDIA-Nemotron-Nano-v2", {Calls::kJson, true}},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", {Calls::kJson, false}},
      {"Qwen-Qwen2.5-7B-Instruct", {Calls::kJson, false}},
      {"Qwen-Qwen3-0.6B", {Calls::kJson, true}},
      {"Qwen3-Coder", {Calls::kXml, false}},
      {"Qwen3.5-4B", {Calls::kXml, true}},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", {Calls::kNamed, true}},
      {"google-gemma-2-2b-it", {Calls::kNone, false}},
      {"ibm-granite-granite-4.0", {Calls::kJson, false}},
      {"llama-cpp-rwkv-world", {Calls::kNone, true}},
      {"meta-llama-Llama-3.1-8B-Instruct", {Calls::kBareJson, false}},
      {"meta-llama-Llama-3.2-3B-Instruct", {Calls::kBareJson, false}},
      {"microsoft-Phi-3.5-mini-instruct", {Calls::kNone, false}},
  };
  expect_read_back(folder, expected, 18);
}

}  // namespace
}  // namespace reprise::protocol::test
