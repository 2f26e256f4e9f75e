#pragma once
// The input of a response as the messages of a chat that templates know.
//
//   a text                  a user's message
//   message                 a message; parts of its content become one text, with a line break between two
//   reasoning, message,     what an assistant said in one turn: content, reasoning_content and tool_calls of one message
//   function_call and
//   custom_tool_call
//   …_call_output           a tool message
//   compaction              a user's message with the summary that this server had sealed
//   compaction_trigger      at the end alone: a user's message that asks for a summary
// Instructions, and what a system or a developer says before anybody else, are one system message at the beginning;
// what they say later keeps its position. Parts of content that are no text are refused in the user's last message; in
// history and in results they become a text (protocol/api/omitted_part.h).
//
// Threading: pure functions. All throw BadRequest.

#include <string>

#include "base/json.h"
#include "protocol/api/body_limits.h"
#include "protocol/service.h"

namespace reprise::protocol::responses {

/// The messages, with ChatPrompt::blocks. `before`: messages of earlier turns, as this gave them. What the input says goes
/// behind them.
ChatPrompt read_input(const Json& input, Json before, const BodyLimits& limits);

/// With the instructions, which may be empty.
ChatPrompt with_instructions(const std::string& instructions, ChatPrompt chat);

/// Whether the input ends with a compaction_trigger.
bool asks_for_compaction(const Json& input);
/// Asks for a summary of the conversation, as a compaction_trigger does.
void ask_for_summary(Json& messages);

/// What clients keep of reasoning and of summaries, and send back: opaque to them. Of reasoning it names the turn as well
/// (protocol/sampled_turns.h).
std::string sealed_text(const std::string& text, const std::string& turn = {});

}  // namespace reprise::protocol::responses
