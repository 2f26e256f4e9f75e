#pragma once
// Replies in the formats of several families, with the expected pieces.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/reply/reply_parser.h"

namespace reprise::protocol::test {

// The parts of templates by which formats are detected.
inline constexpr std::string_view kHermes =
    "<think>\\n\\n</think>\\n\\n <tool_call>\\n{\"name\": \"x\", \"arguments\": y}\\n</tool_call>";
inline constexpr std::string_view kXml =
    "<think>\\n\\n</think>\\n\\n <tool_call>\\n<function=x>\\n<parameter=y>\\n</parameter>";
inline constexpr std::string_view kSeed = "<seed:think></seed:think><seed:tool_call><function=x>";
inline constexpr std::string_view kNemotron = "<think></think> <TOOLCALL>[";
inline constexpr std::string_view kJamba = "<tool_calls>[";
inline constexpr std::string_view kLlama = "{\"name\": function name, \"parameters\": dictionary}";
inline constexpr std::string_view kMistralList = "[THINK][/THINK] [TOOL_CALLS] [";
inline constexpr std::string_view kMistral = "[THINK][/THINK] '[TOOL_CALLS]' + name + '[ARGS]' + arguments";
inline constexpr std::string_view kKimi = "<|tool_calls_section_begin|>";
inline constexpr std::string_view kDeepSeek = "<think> <｜tool▁calls▁begin｜> ```json";
inline constexpr std::string_view kDeepSeekPlain = "<think> <｜tool▁calls▁begin｜>";
inline constexpr std::string_view kGranite = "<|tool_call|>";
inline constexpr std::string_view kLfm = "<|tool_list_start|>";
inline constexpr std::string_view kPlain = "<|user|>";

inline constexpr std::string_view kAllFormats[] = {kHermes,      kXml,     kSeed, kNemotron, kJamba,
                                                   kLlama,       kMistral, kKimi, kDeepSeek, kDeepSeekPlain,
                                                   kMistralList, kGranite, kLfm,  kPlain};

inline Json sample_tools() {
  return *Json::parse(R"([
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {
       "city": {"type": "string"}, "days": {"type": "integer"}, "exact": {"type": "boolean"},
       "note": {"type": ["string", "null"]}, "where": {"anyOf": [{"type": "string"}, {"type": "null"}]},
       "box": {"type": "object"}}}}},
    {"type": "function", "function": {"name": "now"}}])");
}

inline ReplyParserOptions sample_options(std::string_view tail = "") {
  ReplyParserOptions options;
  options.tools = sample_tools();
  options.prompt_tail = tail;
  options.id_seed = "r1";
  return options;
}

/// Joins adjacent pieces of one kind, so that the result does not depend on how the text was split.
inline ReplyPieces joined(const ReplyPieces& pieces) {
  ReplyPieces out;
  for (const ReplyPiece& piece : pieces) {
    ReplyPiece* last = out.empty() ? nullptr : &out.back();
    if (last == nullptr || last->index() != piece.index()) {
      out.push_back(piece);
    } else if (auto* content = std::get_if<ReplyContent>(last)) {
      content->text += std::get<ReplyContent>(piece).text;
    } else if (auto* reasoning = std::get_if<ReplyReasoning>(last)) {
      reasoning->text += std::get<ReplyReasoning>(piece).text;
    } else if (auto* arguments = std::get_if<ToolCallArguments>(last)) {
      arguments->json += std::get<ToolCallArguments>(piece).json;
    } else {
      out.push_back(piece);
    }
  }
  return out;
}

/// Formats pieces for comparison: content "text", reasoning "text", call 0 weather #id, args "…", end 0.
inline std::string shown(const ReplyPieces& pieces) {
  std::string out;
  for (const ReplyPiece& piece : joined(pieces)) {
    if (const auto* content = std::get_if<ReplyContent>(&piece)) {
      out += "content " + Json(content->text).dump() + "\n";
    } else if (const auto* reasoning = std::get_if<ReplyReasoning>(&piece)) {
      out += "reasoning " + Json(reasoning->text).dump() + "\n";
    } else if (const auto* begin = std::get_if<ToolCallBegin>(&piece)) {
      out += "call " + std::to_string(begin->index) + " " + begin->name + " #" + begin->id + "\n";
    } else if (const auto* arguments = std::get_if<ToolCallArguments>(&piece)) {
      out += "arguments " + arguments->json + "\n";
    } else {
      out += "end " + std::to_string(std::get<ToolCallEnd>(piece).index) + "\n";
    }
  }
  return out;
}

/// Returns the pieces of a reply that is split at the given offsets.
inline ReplyPieces parsed(const ReplyFormat& format, const ReplyParserOptions& options, std::string_view text,
                          const std::vector<std::size_t>& cuts = {}) {
  ReplyParser parser(format, options);
  ReplyPieces all;
  const auto add = [&all](ReplyPieces pieces) { all.insert(all.end(), pieces.begin(), pieces.end()); };
  std::size_t from = 0;
  for (const std::size_t cut : cuts) {
    add(parser.push(text.substr(from, cut - from)));
    from = cut;
  }
  add(parser.push(text.substr(from)));
  add(parser.finish());
  return all;
}

struct Sample {
  std::string_view source;
  std::string_view tail;
  std::string_view reply;
  std::string_view pieces;  // in shown()'s format
};

const std::vector<Sample>& samples();

}  // namespace reprise::protocol::test
