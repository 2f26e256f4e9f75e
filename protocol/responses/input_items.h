#pragma once
// The input of a response as the messages of a chat that templates know.
//
//   a text                  a user's message
//   message                 a message; parts of its content become one text, with a line break between two
//   reasoning, message and  what an assistant said in one turn: content, reasoning_content and tool_calls of one message
//   function_call
//   function_call_output    a tool message
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

/// What a client that keeps no text of reasoning keeps instead, and sends back: opaque to it. It names the turn as well
/// (protocol/sampled_turns.h).
std::string sealed_reasoning(const std::string& text, const std::string& turn);

}  // namespace reprise::protocol::responses
