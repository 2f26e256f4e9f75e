#pragma once
// Validates a JSON value against a JSON Schema, as simply as possible and independently of protocol/grammar,
// whose output it checks. Patterns use std::regex, so texts must be ASCII.

#include "base/json.h"

namespace reprise::protocol {

/// `root`: the schema that references are resolved in.
bool validates(const Json& root, const Json& schema, const Json& value);

}  // namespace reprise::protocol
