#pragma once
// Between JSON and template values: the context comes in as one, and the filter tojson goes out to the other.
//
// Threading: values of one rendering.

#include <string>

#include "base/json.h"
#include "base/json_text.h"
#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

Value from_json(Workspace& workspace, const Json& json);

/// As Python's json.dumps: tuples are arrays, keys that are numbers, booleans or None become strings. Fails
/// for what JSON cannot say, undefined values among it.
std::string to_json(Workspace& workspace, const Value& value, const JsonStyle& style);

}  // namespace reprise::protocol::jinja
