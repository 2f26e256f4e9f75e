#pragma once
// Calls of tools to a program.
//
// Threading: pure functions.

#include "protocol/grammar/constraint.h"
#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

/// One call without the mark before it. Throws as below.
NodeId one_call(ProgramBuilder& builder, const CallsConstraint& calls, NodeId next);

/// Throws GrammarError, with the tool's name, for a strict tool whose schema cannot be kept.
NodeId calls_start(ProgramBuilder& builder, const CallsConstraint& calls);

}  // namespace reprise::protocol::grammar
