#pragma once
// From the JSON body of POST /v1/messages, or of count_tokens, to what it asks for: system, messages and tools as the chat
// that templates know.
//
//   system               one system message, a line break between two blocks; the billing header that Claude Code puts
//                        there, another in every request, is left out
//   a user's message     one user message for what stands between tool results, and a tool message for each result;
//                        two user messages in a row are one
//   an assistant's       content, reasoning_content and tool_calls of one message
//   a system message     the same, at its position
//   cache_control        a breakpoint behind the block; at most four
// What cannot be answered for (images, documents, tools of Anthropic's own servers) is refused with its place; images and
// documents in results of tools and in history become a text (omitted_part()). What becomes of fields that are not read:
// protocol/api/field_rules.h.
//
// Threading: pure functions. Both throw BadRequest.

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"

namespace reprise::protocol::anthropic {

/// The signature of a reply's thinking begins so: what stands in the place of a proof that a thinking block is the model's
/// own. It names the turn, for when the client sends it back (protocol/sampled_turns.h).
inline constexpr std::string_view kSignature = "reprise-turn:";

ApiRequest read_messages_request(const Json& body, const BodyLimits& limits);

/// What is needed to count the tokens of the same prompt. `unknown` gets the names of fields without effect.
RenderRequest read_count_request(const Json& body, const BodyLimits& limits,
                                 std::vector<std::string>& unknown);

}  // namespace reprise::protocol::anthropic
