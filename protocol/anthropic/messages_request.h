#pragma once
// Parses the JSON body of POST /v1/messages and of count_tokens into a chat: system message, messages and
// tools.
//
//   system               one system message, blocks joined by line breaks, without Claude Code's billing
//                        header, which differs in every request
//   user message         a user message for the content between tool results, and a tool message for each
//                        result; two consecutive user messages are merged
//   assistant message    content, reasoning_content and tool_calls of one message
//   system message       unchanged, at its position
//   cache_control        a breakpoint after the block; at most four
// Unsupported content (images, documents, server tools) is refused with its location; images and documents in
// tool results and history become a text (omitted_part()). protocol/api/field_rules.h decides about unread
// fields.
//
// All functions throw BadRequest.

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"

namespace reprise::protocol::anthropic {

/// The prefix of the signature of a thinking block, which here does not prove its origin. It is followed by
/// the turn's ID, for when the client sends the block back (protocol/sampled_turns.h).
inline constexpr std::string_view kSignature = "reprise-turn:";

ApiRequest read_messages_request(const Json& body, const BodyLimits& limits);

/// Reads what is needed to count the prompt's tokens. `unknown` gets the names of fields without effect.
RenderRequest read_count_request(const Json& body, const BodyLimits& limits,
                                 std::vector<std::string>& unknown);

}  // namespace reprise::protocol::anthropic
