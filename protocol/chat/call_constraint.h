#pragma once
// Calls of a request's tools in the form of a model's replies, as a constraint: so that a reply that must be a call is
// one of an offered tool, with arguments that fit.
//
// Threading: pure functions.

#include <optional>
#include <span>
#include <string_view>

#include "base/json.h"
#include "protocol/grammar/constraint.h"
#include "protocol/reply/reply_format.h"
#include "protocol/service.h"

namespace reprise::protocol {

/// `text_tools` of the functions below: those of the tools that take a text with a rule of its own.
///
/// What follows the opening that tool_opening() gave for this name: one call, and nothing behind it. Nothing where the
/// format has no calls.
std::optional<grammar::CallsConstraint> forced_call(const ReplyFormat& format, const Json& tools,
                                                    std::string_view name,
                                                    std::span<const TextTool> text_tools = {});

/// Calls that may come in a reply, behind the format's mark. Nothing where no mark tells where a call begins.
std::optional<grammar::CallsConstraint> free_calls(const ReplyFormat& format, const Json& tools,
                                                   std::span<const TextTool> text_tools = {});

/// Some tool is `strict`, or takes a text with a rule: its calls must fit, also where none must be made.
bool has_strict_tool(const Json& tools, std::span<const TextTool> text_tools = {});

}  // namespace reprise::protocol
