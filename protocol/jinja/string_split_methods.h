#pragma once
// Methods of str that cut a string into several, and join, which puts them together.
//
// Threading: values of one rendering.

#include "protocol/jinja/arguments.h"
#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

Value split(Workspace& workspace, const Value& self, const Arguments& arguments, bool from_right);
Value partition(Workspace& workspace, const Value& self, const Arguments& arguments, bool from_right);
Value split_lines_method(Workspace& workspace, const Value& self, const Arguments& arguments);
Value join_method(Workspace& workspace, const Value& self, const Arguments& arguments);

}  // namespace reprise::protocol::jinja
