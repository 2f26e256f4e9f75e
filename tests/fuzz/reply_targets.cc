// Model replies: reasoning and calls in the formats of all families, with markers cut at every byte.
#include <string>

#include "base/check.h"
#include "protocol/reply/reply_format.h"
#include "protocol/reply/reply_message.h"
#include "protocol/reply/reply_parser.h"
#include "tests/fuzz/cuts.h"
#include "tests/fuzz/targets.h"
#include "tests/protocol/reply_samples.h"

namespace reprise::fuzz {
namespace {

using namespace protocol;

// Checks the order begin, arguments, end; ascending indices; no empty pieces.
void check_well_formed(const ReplyPieces& pieces) {
  std::uint32_t begun = 0;
  bool open = false;
  for (const ReplyPiece& piece : pieces) {
    if (const auto* begin = std::get_if<ToolCallBegin>(&piece)) {
      REPRISE_CHECK(!open && begin->index == begun && !begin->name.empty(),
                    "a call began inside another one, out of order or without a name");
      ++begun;
      open = true;
    } else if (const auto* arguments = std::get_if<ToolCallArguments>(&piece)) {
      REPRISE_CHECK(open && arguments->index + 1 == begun && !arguments->json.empty(),
                    "arguments are empty or outside of the open call");
    } else if (const auto* end = std::get_if<ToolCallEnd>(&piece)) {
      REPRISE_CHECK(open && end->index + 1 == begun, "a call ended that is not open");
      open = false;
    } else if (const auto* content = std::get_if<ReplyContent>(&piece)) {
      REPRISE_CHECK(!open && !content->text.empty(), "content is empty or inside a call");
    } else {
      REPRISE_CHECK(!open && !std::get<ReplyReasoning>(piece).text.empty(),
                    "reasoning is empty or inside a call");
    }
  }
  REPRISE_CHECK(!open, "a call does not end");
}

void parse_all_ways(const ReplyFormat& format, const ReplyParserOptions& options, std::string_view text) {
  const ReplyPieces whole = test::parsed(format, options, text);
  check_well_formed(whole);
  const ReplyPieces expected = test::joined(whole);
  for (const Cuts& cuts : {cut_everywhere(text), cut_by_text(text)}) {
    const ReplyPieces pieces = test::parsed(format, options, text, cuts);
    check_well_formed(pieces);
    REPRISE_CHECK(test::joined(pieces) == expected, "the reply depends on how it is cut");
  }
  const Json message = assistant_message(whole);
  REPRISE_CHECK(message.is_object(), "a message that is no object");
  static_cast<void>(template_form(message, format.null_content));
}

}  // namespace

// The first byte chooses the format, the second the options.
bool fuzz_reply(std::string_view input) {
  if (input.size() < 2) return false;
  const auto first = static_cast<unsigned char>(input[0]);
  const auto second = static_cast<unsigned char>(input[1]);
  const ReplyFormat format = detect_reply_format(test::kAllFormats[first % std::size(test::kAllFormats)]);
  const std::string tail = second % 2 == 1 ? format.think_open + "\n" : "";
  ReplyParserOptions options = test::sample_options(tail);
  options.parse_tools = second / 2 % 4 != 3;
  options.parse_reasoning = second / 8 % 4 != 3;
  if (second / 32 % 2 == 1) {
    options.reply_opening = tool_opening(format, second / 64 % 2 == 1 ? "weather" : "", tail).value_or("");
  }
  parse_all_ways(format, options, input.substr(2));
  return true;
}

// The input is a template's source and also the reply.
bool fuzz_reply_format(std::string_view input) {
  const ReplyFormat format = detect_reply_format(input);
  REPRISE_CHECK(format.has_reasoning() == !format.think_close.empty(), "half of a thinking block");
  const std::string_view tail = input.substr(input.size() - std::min<std::size_t>(input.size(), 40));
  static_cast<void>(opens_thinking(format, tail));
  for (const std::string_view name : {std::string_view("weather"), std::string_view(), tail}) {
    const auto opening = tool_opening(format, name, tail);
    REPRISE_CHECK(!opening || format.has_calls(), "an opening of a call in a format without calls");
  }
  ReplyParserOptions options = test::sample_options(tail);
  parse_all_ways(format, options, input);
  return format.has_reasoning() || format.has_calls();
}

}  // namespace reprise::fuzz
