#pragma once
// ReplyParser: turns the text of a reply, as it streams, into content, reasoning and tool calls.
//
// The pieces, joined, are the same however the text was cut into pushes. Text that may be the start of a mark
// is held back until it is known, at most the length of a mark; newlines that a mark behind them would
// swallow are held back too, at most kMostNewlinesHeld.
//
// Reasoning is recognised at the start of the reply only, or where the prompt has opened it. A call inside it is a
// thought where the model says something behind its reasoning, or calls there; else it is what the model had to say,
// and counts as a call. Which of the two it is shows at the end: from the call's mark on reasoning is held back until
// then, or until it has ended and something follows. Of a call, Begin comes as soon as the name is known and the arguments follow as
// the model writes them. Nothing is lost: a call that breaks before its Begin comes out as content, marks and
// all. One that breaks or stops behind it gets its End as it stands, with arguments that are perhaps not
// whole JSON, and the text behind the break is content.
//
// Newlines at both ends of reasoning, behind it, and around calls are dropped: the templates write their own.
//
// Threading: one thread at a time. Time is linear in the text; memory is bounded by kMostCallHeld.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "protocol/reply/reply_format.h"

namespace reprise::protocol {

struct ReplyContent {
  std::string text;
  friend bool operator==(const ReplyContent&, const ReplyContent&) = default;
};
struct ReplyReasoning {
  std::string text;
  friend bool operator==(const ReplyReasoning&, const ReplyReasoning&) = default;
};
struct ToolCallBegin {
  std::uint32_t index = 0;  // 0, 1, … within the reply
  std::string id;
  std::string name;
  friend bool operator==(const ToolCallBegin&, const ToolCallBegin&) = default;
};
struct ToolCallArguments {
  std::uint32_t index = 0;
  std::string json;  // a fragment; all of them joined are the arguments
  friend bool operator==(const ToolCallArguments&, const ToolCallArguments&) = default;
};
struct ToolCallEnd {
  std::uint32_t index = 0;
  friend bool operator==(const ToolCallEnd&, const ToolCallEnd&) = default;
};

/// No piece has an empty text. Between a Begin and its End there are only Arguments of that call, at least
/// one unless the call stopped before them.
using ReplyPiece = std::variant<ReplyContent, ReplyReasoning, ToolCallBegin, ToolCallArguments, ToolCallEnd>;
using ReplyPieces = std::vector<ReplyPiece>;

struct ReplyParserOptions {
  Json tools{};  // the request's, an array of {"type": "function", "function": {…}}, or null
  /// The last bytes of the rendered prompt. Where they leave a thinking block open, the reply begins inside
  /// it.
  std::string prompt_tail{};
  /// What was put behind the prompt to force a call (tool_opening): parsed as the reply's own start, its
  /// pieces come with the first push. prompt_tail may end with it or not.
  std::string reply_opening{};
  bool parse_tools = true;
  bool one_call = false;        // what comes behind the first is left out
  bool parse_reasoning = true;  // false: reasoning stays in the content, marks and all
  /// Ids of calls are "call_" + id_seed + "_" + index, unless the family has rules of its own: give different
  /// seeds to different replies.
  std::string id_seed{};
};

/// Text of a call held back until it can be told, as long as the name is not known or a value is not
/// complete. A call over it comes out as content.
inline constexpr std::size_t kMostCallHeld = std::size_t{1} << 20;
inline constexpr std::size_t kMostNewlinesHeld = 64;

class ReplyParser {
 public:
  ReplyParser(ReplyFormat format, ReplyParserOptions options);
  ~ReplyParser();
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  ReplyPieces push(std::string_view text);
  /// The reply has ended. No push may follow.
  ReplyPieces finish();

  /// Calls begun so far: with any, the reply's finish_reason is "tool_calls".
  std::uint32_t calls() const;
  /// What comes next is reasoning, as far as it is known.
  bool in_reasoning() const;
  /// Outside of reasoning: a block of it may still begin.
  bool may_begin_reasoning() const;

 private:
  class Machine;
  ReplyPieces up_to_first_call(ReplyPieces pieces);

  bool one_call_;
  bool has_call_ = false;  // a whole one
  std::unique_ptr<Machine> machine_;
};

}  // namespace reprise::protocol
