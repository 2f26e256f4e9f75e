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

/// The error says what is wrong, and begins with the keyword where a schema has it.
Outcome<std::shared_ptr<const Program>, std::string> compile(const Constraint& constraint,
                                                             const Limits& limits = {});

}  // namespace reprise::protocol::grammar
