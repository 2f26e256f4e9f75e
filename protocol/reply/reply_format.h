#pragma once
// ReplyFormat: the marks of reasoning and tool calls in a model's replies. They are found in the source of
// the chat template, which writes the same marks for the history. If the template has no known format,
// replies are plain text.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::protocol {

struct ReplyFormat {
  /// The syntax between call_open and call_close.
  enum class Calls : std::uint8_t {
    kNone,
    kJson,      // {"name": "f", "arguments": {...}}, or a list of such objects
    kBareJson,  // {"name": "f", "parameters": {...}} as the whole reply; call_open is optional
    kXml,       // <function=f>\n<parameter=key>\nvalue\n</parameter>\n</function>
    kNamed,     // name, separator, JSON arguments; uses the marks below
    kPython,    // [f(key="value", other=1)]
  };

  std::string think_open{};   // "<think>"; empty: no reasoning
  std::string think_close{};  // "</think>"
  /// An empty thinking block as the template writes it, with its trailing newlines; may be empty.
  std::string think_nothing{};
  /// The template's text between reasoning and think_close, and after think_close.
  std::string before_think_close = "\n";
  std::string after_think_close = "\n\n";

  Calls calls = Calls::kNone;
  std::string call_open{};
  std::string call_close{};  // empty: a call ends with its JSON
  bool list = false;         // kJson: the template writes a list
  std::string arguments_key = "arguments";

  std::string item_open{};       // kNamed: before each name; may be empty
  std::string name_separator{};  // kNamed: between the name and the arguments
  std::string item_close{};      // kNamed: after the arguments; may be empty
  enum class Header : std::uint8_t {
    kPlain,  // the text before the separator is the name
    kKimi,   // functions.NAME:INDEX, which is also the call's id
    kTyped,  // "function", separator, NAME, then the arguments in a fenced block
  } header = Header::kPlain;

  /// The templates accept only ids of nine letters and digits.
  bool short_ids = false;

  /// The template tests whether content is null, so it must stay null in messages with calls.
  bool null_content = false;

  bool has_reasoning() const { return !think_open.empty(); }
  bool has_calls() const { return calls != Calls::kNone; }
};

ReplyFormat detect_reply_format(std::string_view chat_template_source);

/// Returns whether a prompt with this end leaves the reply inside a thinking block.
bool opens_thinking(const ReplyFormat& format, std::string_view prompt_tail);

/// Returns the text that closes the thinking block at the end of `text` as the template does. Completes a
/// partial close mark.
std::string reasoning_end(const ReplyFormat& format, std::string_view text);

/// Returns the text to append to a prompt so that the reply must be a call of the named tool (empty: any
/// tool). Closes a thinking block that the prompt leaves open. Returns nothing if the format has no calls or
/// cannot express the name.
std::optional<std::string> tool_opening(const ReplyFormat& format, std::string_view tool_name,
                                        std::string_view prompt_tail);

}  // namespace reprise::protocol
