#include "protocol/chat/chat_request.h"

#include <optional>
#include <utility>

#include "protocol/chat/call_constraint.h"

namespace reprise::protocol {
namespace {

std::optional<Error> force_call(const ChatFormat* format, const std::string& name, std::string_view prompt,
                                ChatPrompt& chat, grammar::Constraint& constraint) {
  if (!chat.reply_opening.empty()) {
    return Error{ErrorKind::kInvalid,
                 "tool_choice: a reply that continues a message cannot be forced to be a tool call",
                 "tool_choice"};
  }
  if (prompt.size() > kMaxPromptTail) prompt.remove_prefix(prompt.size() - kMaxPromptTail);
  std::optional<std::string> opening;
  if (format != nullptr) opening = format->call_opening(name, prompt);
  if (!opening) {
    return Error{ErrorKind::kUnsupported,
                 "tool_choice: this model's chat template gives no way to force a tool call", "tool_choice"};
  }
  chat.reply_opening = std::move(*opening);
  if (auto calls = forced_call(format->reply_format(), chat.tools, name, chat.text_tools)) {
    constraint = {.kind = grammar::Constraint::Kind::kCalls,
                  .calls = std::move(*calls),
                  .whitespace = std::move(constraint.whitespace),
                  .field = "tools"};
  }
  return std::nullopt;
}

// Constrains calls that the model may choose to make: calls of strict tools match their schemas, and calls
// remain possible under another constraint.
std::optional<Error> keep_calls(const ChatFormat* format, const ChatPrompt& chat,
                                grammar::Constraint& constraint) {
  const bool strict = has_strict_tool(chat.tools, chat.text_tools);
  if (format == nullptr || (!strict && !constraint)) return std::nullopt;
  auto calls = free_calls(format->reply_format(), chat.tools, chat.text_tools);
  if (calls) {
    constraint.calls = std::move(*calls);
    if (!constraint) constraint.kind = grammar::Constraint::Kind::kCalls;
    if (constraint.field.empty()) constraint.field = "tools";
    return std::nullopt;
  }
  if (!strict) return std::nullopt;
  return Error{ErrorKind::kUnsupported,
               "tools: 'strict' and the formats of custom tools cannot be enforced in this model's format of "
               "tool calls",
               "tools"};
}

}  // namespace

Outcome<ReplyParserOptions, Error> prepare_chat(const ChatFormat* format, const ToolChoice& choice,
                                                std::string_view prompt, GenerateRequest& request) {
  auto& chat = std::get<ChatPrompt>(request.prompt);
  grammar::Constraint& constraint = request.rules.constraint;
  std::optional<Error> impossible;
  if (choice.forces_call()) {
    impossible = force_call(format, choice.name, prompt, chat, constraint);
  } else if (choice.mode == ToolChoice::Mode::kAuto) {
    impossible = keep_calls(format, chat, constraint);
  }
  if (impossible) return std::move(*impossible);
  ReplyParserOptions options;
  options.tools = chat.tools;
  options.parse_tools = choice.mode != ToolChoice::Mode::kNone;
  if (choice.forces_call()) options.reply_opening = chat.reply_opening;
  return options;
}

ReplyParser reply_parser(const ChatFormat* format, ReplyParserOptions options, const Started& started,
                         std::string id_seed) {
  options.prompt_tail = started.prompt_tail;
  options.id_seed = std::move(id_seed);
  return format == nullptr ? ReplyParser({}, std::move(options)) : format->parser(std::move(options));
}

}  // namespace reprise::protocol
