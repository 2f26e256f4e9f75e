#pragma once
// JSON Schema to a program whose texts are the values that fit.
//
// Every keyword that says which values fit is kept, or the schema is refused with a GrammarError that begins with the
// keyword: never ignored. Keywords that are annotations to the specification say nothing, `format`s that it does
// not define among them.
//
// Threading: pure functions.

#include "base/json.h"
#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

/// The value that fits the schema, ending at `builder.end()`.
NodeId json_schema_value(ProgramBuilder& builder, const Json& schema);

/// Any JSON object.
NodeId any_json_object(ProgramBuilder& builder);

}  // namespace reprise::protocol::grammar
