#pragma once
// ReplyParser: splits the text of a reply, while it streams, into content, reasoning and tool calls.
//
// The joined pieces do not depend on how the text was split into pushes. Text that may begin a mark is
// withheld until that is decided, at most the length of a mark; so are newlines that a following mark would
// remove, at most kMaxNewlinesHeld.
//
// Reasoning is recognized only at the start of the reply, or if the prompt has opened it. A call inside
// reasoning is part of the reasoning if content or calls follow it; otherwise it counts as a call. So from
// such a call on, reasoning is withheld until it is clear what follows.
//
// ToolCallBegin is sent once the name is known, and arguments follow as they are generated. No text is lost:
// a call that turns out invalid before its Begin becomes content, including its marks. A call that ends or
// breaks later gets its End, possibly with incomplete JSON, and the text after the break is content.
//
// Newlines around reasoning and calls are removed, because templates write their own.
//
// Threading: one thread at a time. Time is linear in the text; memory is bounded by kMaxCallHeld.

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
  std::uint32_t index = 0;  // 0, 1, ... within the reply
  std::string id;
  std::string name;
  friend bool operator==(const ToolCallBegin&, const ToolCallBegin&) = default;
};
struct ToolCallArguments {
  std::uint32_t index = 0;
  std::string json;  // a fragment; the fragments joined are the arguments
  friend bool operator==(const ToolCallArguments&, const ToolCallArguments&) = default;
};
struct ToolCallEnd {
  std::uint32_t index = 0;
  friend bool operator==(const ToolCallEnd&, const ToolCallEnd&) = default;
};

/// No piece is empty. Between a Begin and its End there are only Arguments of that call, at least one unless
/// the call was cut off before them.
using ReplyPiece = std::variant<ReplyContent, ReplyReasoning, ToolCallBegin, ToolCallArguments, ToolCallEnd>;
using ReplyPieces = std::vector<ReplyPiece>;

struct ReplyParserOptions {
  Json tools{};  // the request's tools: an array of {"type": "function", "function": {...}}, or null
  /// The end of the rendered prompt. If it leaves a thinking block open, the reply begins inside it.
  std::string prompt_tail{};
  /// Text appended to the prompt to force a call (tool_opening()). It is parsed as the start of the reply.
  /// prompt_tail may include it or not.
  std::string reply_opening{};
  bool parse_tools = true;
  bool one_call = false;        // drop everything after the first call
  bool parse_reasoning = true;  // false: reasoning is part of the content, including marks
  /// Ids of calls are "call_" + id_seed + "_" + index, unless the format requires others. Use a different
  /// seed for each reply.
  std::string id_seed{};
};

/// Maximum bytes of a call that are withheld while its name is unknown or a value is incomplete. A longer
/// call becomes content.
inline constexpr std::size_t kMaxCallHeld = std::size_t{1} << 20;
inline constexpr std::size_t kMaxNewlinesHeld = 64;

class ReplyParser {
 public:
  ReplyParser(ReplyFormat format, ReplyParserOptions options);
  ~ReplyParser();
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  ReplyPieces push(std::string_view text);
  /// Ends the reply and returns the remaining pieces. No push() may follow.
  ReplyPieces finish();

  /// Returns the number of calls begun; if not 0, the finish_reason is "tool_calls".
  std::uint32_t calls() const;
  /// Returns whether the next text is reasoning, as far as known.
  bool in_reasoning() const;
  /// Returns whether reasoning may still begin; false within reasoning.
  bool may_begin_reasoning() const;

 private:
  class Machine;
  ReplyPieces up_to_first_call(ReplyPieces pieces);

  bool one_call_;
  bool has_call_ = false;  // a complete call
  std::unique_ptr<Machine> machine_;
};

}  // namespace reprise::protocol
