#pragma once
// ReplyFormat: how a family of models marks reasoning and tool calls in what it writes, found from the text
// of its chat template, which writes the same marks into the history.
//
// A format is data: marks and the grammar between them. Where the template shows no form that is known here,
// the format has none, and replies are plain text.
//
// Threading: plain values and pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::protocol {

struct ReplyFormat {
  /// What stands between call_open and call_close.
  enum class Calls : std::uint8_t {
    kNone,
    kJson,      // {"name": "f", "arguments": {…}}, or a list of such objects
    kBareJson,  // {"name": "f", "parameters": {…}} as the reply itself; call_open may stand before it
    kXml,       // <function=f>\n<parameter=key>\nvalue\n</parameter>\n</function>
    kNamed,     // name, separator, JSON arguments: the marks below
    kPython,    // [f(key="value", other=1)]
  };

  std::string think_open{};   // "<think>"; empty: no reasoning
  std::string think_close{};  // "</think>"
  /// A thinking block with nothing in it as the template writes it, with the newlines behind; may be empty.
  std::string think_nothing{};
  /// What the template writes between reasoning and think_close, and behind that.
  std::string before_think_close = "\n";
  std::string after_think_close = "\n\n";

  Calls calls = Calls::kNone;
  std::string call_open{};
  std::string call_close{};  // empty: a call ends where its JSON ends
  bool list = false;         // kJson: the template writes a list
  std::string arguments_key = "arguments";

  std::string item_open{};       // kNamed: before each name; may be empty
  std::string name_separator{};  // kNamed: between the name and the arguments
  std::string item_close{};      // kNamed: behind the arguments; may be empty
  enum class Header : std::uint8_t {
    kPlain,  // the text before the separator is the name
    kKimi,   // functions.NAME:INDEX, which is the id of the call as well
    kTyped,  // function, separator, NAME, and the arguments in a fenced block
  } header = Header::kPlain;

  /// The family's templates take no other ids than nine letters and digits.
  bool short_ids = false;

  /// The template looks whether a message's content is none, so that beside calls it should stay null.
  bool null_content = false;

  bool has_reasoning() const { return !think_open.empty(); }
  bool has_calls() const { return calls != Calls::kNone; }
};

ReplyFormat detect_reply_format(std::string_view chat_template_source);

/// Whether a prompt with this end leaves the reply inside a thinking block.
bool opens_thinking(const ReplyFormat& format, std::string_view prompt_tail);

/// What to put behind a text that ends inside a thinking block, so that the block is closed as the template closes it.
/// Completes a close mark that the text has begun.
std::string reasoning_end(const ReplyFormat& format, std::string_view text);

/// What to put behind the prompt so that the reply can only be a call: of the named tool, or of any where the
/// name is empty. Closes the thinking block that the prompt leaves open. Nothing where the format has no
/// calls, or where the name cannot be written in it.
std::optional<std::string> tool_opening(const ReplyFormat& format, std::string_view tool_name,
                                        std::string_view prompt_tail);

}  // namespace reprise::protocol
