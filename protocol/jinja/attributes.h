#pragma once
// value.name and value[key], as Jinja's immutable sandbox has them.
//
// `value.name` looks for a method of the type first and a member of a dict second; `value['name']` the other
// way round. What is not there is undefined, which fails only when it is used. So does what the sandbox
// forbids: methods that change a list or dict, and names that begin with an underscore.
//
// Threading: values of one rendering.

#include <optional>
#include <string_view>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

Value get_attribute(Workspace& workspace, const Value& value, std::string_view name);
Value get_item(Workspace& workspace, const Value& value, const Value& key);

/// A method of the value's type, bound to it; nothing if the type has none of that name.
std::optional<Value> find_method(Workspace& workspace, const Value& value, std::string_view name);

}  // namespace reprise::protocol::jinja
