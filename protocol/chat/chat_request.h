#pragma once
// Prepares a request with a chat: constrains or forces its tool calls, and says how its reply is parsed. The
// APIs use it, and programs that embed the engine:
//
//   ToolChoice choice{.mode = ToolChoice::Mode::kRequired};
//   auto text = format.render(chat);                               only if choice.forces_call()
//   auto parsing = prepare_chat(&format, choice, *text, request);
//   auto events = engine.generate(request);                        at Started:
//   ReplyParser parser = reply_parser(&format, *parsing, started, turn_id(request.origin.reply_id, 0));

#include <string>
#include <string_view>

#include "base/outcome.h"
#include "protocol/chat/chat_format.h"
#include "protocol/error.h"
#include "protocol/reply/reply_parser.h"
#include "protocol/service.h"

namespace reprise::protocol {

/// Restricts the tool calls of a reply.
struct ToolChoice {
  enum class Mode : std::uint8_t { kNone, kAuto, kRequired, kNamed } mode = Mode::kNone;
  std::string name{};  // of the tool, for kNamed

  bool forces_call() const { return mode == Mode::kRequired || mode == Mode::kNamed; }
};

/// Sets the opening and the constraint of the request that `choice` needs, and returns the options to parse
/// its reply. `format`: the model's; null: it has none. `prompt`: the rendered chat, or its last
/// kMaxPromptTail bytes; used only if a call is forced. Returns an error, with `param` as OpenAI names it, if
/// the model's format has no way to keep to the choice.
/// Requires: the request's prompt is a ChatPrompt.
Outcome<ReplyParserOptions, Error> prepare_chat(const ChatFormat* format, const ToolChoice& choice,
                                                std::string_view prompt, GenerateRequest& request);

/// Bytes at the end of a prompt that are searched for tags that the template leaves open.
inline constexpr std::size_t kMaxPromptTail = 512;

/// Returns the parser of one choice's reply. `format`: null: the reply is plain text. `id_seed` determines
/// the ids of its calls.
ReplyParser reply_parser(const ChatFormat* format, ReplyParserOptions options, const Started& started,
                         std::string id_seed);

}  // namespace reprise::protocol
