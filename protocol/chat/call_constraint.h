#pragma once
// Calls of a request's tools in the form of a model's replies, as a constraint: so that a reply that must be a call is
// one of an offered tool, with arguments that fit.
//
// Threading: pure functions.

#include <optional>
#include <string_view>

#include "base/json.h"
#include "protocol/grammar/constraint.h"
#include "protocol/reply/reply_format.h"

namespace reprise::protocol {

/// What follows the opening that tool_opening() gave for this name: one call, and nothing behind it. Nothing where the
/// format has no calls.
std::optional<grammar::CallsConstraint> forced_call(const ReplyFormat& format, const Json& tools,
                                                    std::string_view name);

/// Calls that may come in a reply, behind the format's mark. Nothing where no mark tells where a call begins.
std::optional<grammar::CallsConstraint> free_calls(const ReplyFormat& format, const Json& tools);

/// Some tool is `strict`: its calls must fit, also where none must be made.
bool has_strict_tool(const Json& tools);

}  // namespace reprise::protocol
