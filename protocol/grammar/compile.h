#pragma once
// Compiles a constraint on a reply to a Program.

#include <memory>
#include <string>

#include "base/outcome.h"
#include "protocol/grammar/constraint.h"
#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

/// `wanted` is polled and stops the compilation when it returns false, e.g. after a disconnect. The error
/// says what is wrong, and begins with the keyword if a schema causes it; or it names the exceeded limit.
Outcome<std::shared_ptr<const Program>, std::string> compile(const Constraint& constraint,
                                                             const Limits& limits = {}, IsWanted wanted = {});

/// Compiles with the caller's budget (from compile_budget()), which records the work done.
Outcome<std::shared_ptr<const Program>, std::string> compile(const Constraint& constraint,
                                                             WorkBudget& budget);
WorkBudget compile_budget(const Limits& limits);

}  // namespace reprise::protocol::grammar
