#pragma once
// JSON Schema to a program whose texts are the values that fit.
//
// Every keyword that says which values fit is kept, or the schema is refused with a GrammarError that begins with the
// keyword: never ignored. Keywords that are annotations to the specification say nothing, `format`s that it does
// not define among them.
//
// Threading: pure functions.

#include <cstdint>

#include "base/json.h"
#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

/// Keys that an object's schemas do not speak of, where none of them has `additionalProperties`.
enum class OtherKeys : std::uint8_t {
  kAllowed,     // as the specification has it
  kIfDeclared,  // only where no schema declares a property: arguments of tools have no invented ones
};

/// The value that fits the schema, ending at `builder.end()`.
NodeId json_schema_value(ProgramBuilder& builder, const Json& schema,
                         OtherKeys other_keys = OtherKeys::kAllowed);

/// Any JSON object.
NodeId any_json_object(ProgramBuilder& builder);

}  // namespace reprise::protocol::grammar
