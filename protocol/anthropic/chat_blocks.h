#pragma once
// Anthropic's system, messages and tools as the chat that templates know.
//
//   system               one system message, a line break between two blocks; the billing header that Claude Code puts
//                        there, another in every request, is left out
//   a user's message     one user message for what stands between tool results, and a tool message for each result;
//                        two user messages in a row are one
//   an assistant's       content, reasoning_content and tool_calls of one message
//   a system message     the same, at its position
//   cache_control        a breakpoint behind the block; at most four
// What cannot be answered for (images, documents, tools of Anthropic's own servers) is refused with its place; images and
// documents in results of tools and in history become a text (protocol/api/omitted_part.h).
//
// Threading: a pure function.

#include "protocol/api/body_limits.h"
#include "protocol/api/fields.h"
#include "protocol/service.h"

namespace reprise::protocol::anthropic {

/// Throws BadRequest.
ChatPrompt read_chat(const Fields& fields, const BodyLimits& limits);

}  // namespace reprise::protocol::anthropic
