#pragma once
// The tests: {% if value is name(arguments) %}. All of Jinja's.
//
// Threading: an immutable table; the tests themselves look at values of one rendering.

#include <string_view>

#include "protocol/jinja/arguments.h"
#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

using IsTest = bool (*)(Workspace& workspace, const Value& input, const Arguments& arguments);

/// Null where there is no such test.
IsTest find_is_test(std::string_view name);

}  // namespace reprise::protocol::jinja
