#pragma once
// From what a reply must be to a program.
//
// Threading: pure functions.

#include <memory>
#include <string>

#include "base/outcome.h"
#include "protocol/grammar/constraint.h"
#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

/// `wanted`: whether the client still waits for it. The error says what is wrong, and begins with the keyword where a
/// schema has it; or it names the limit that was exceeded.
Outcome<std::shared_ptr<const Program>, std::string> compile(const Constraint& constraint,
                                                             const Limits& limits = {}, IsWanted wanted = {});

/// The same by a budget of the caller's, made by compile_budget(), which tells afterwards what it took.
Outcome<std::shared_ptr<const Program>, std::string> compile(const Constraint& constraint,
                                                             WorkBudget& budget);
WorkBudget compile_budget(const Limits& limits);

}  // namespace reprise::protocol::grammar
