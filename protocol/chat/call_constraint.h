#pragma once
// Converts a request's tools to a constraint on the model's calls: an offered tool with valid arguments.

#include <optional>
#include <span>
#include <string_view>

#include "base/json.h"
#include "protocol/grammar/constraint.h"
#include "protocol/reply/reply_format.h"
#include "protocol/service.h"

namespace reprise::protocol {

/// Returns the constraint for the text after tool_opening(): exactly one call. `text_tools`: the tools that
/// take text. Returns nothing if the format has no calls.
std::optional<grammar::CallsConstraint> forced_call(const ReplyFormat& format, const Json& tools,
                                                    std::string_view name,
                                                    std::span<const TextTool> text_tools = {});

/// Returns the constraint for calls in a free reply, which begin with the format's mark. Returns nothing if
/// the format has no such mark.
std::optional<grammar::CallsConstraint> free_calls(const ReplyFormat& format, const Json& tools,
                                                   std::span<const TextTool> text_tools = {});

/// Returns whether any tool is `strict` or takes text with a rule, so that its calls are constrained even if
/// no call is required.
bool has_strict_tool(const Json& tools, std::span<const TextTool> text_tools = {});

}  // namespace reprise::protocol
