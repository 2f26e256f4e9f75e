#pragma once
// Python's two ways to format: 'x is %d' % 3 and 'x is {}'.format(3).
//
// Threading: values of one rendering.

#include <string>
#include <string_view>

#include "protocol/jinja/arguments.h"
#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

/// format % argument, where a tuple is a row of arguments and a dict names them.
Value format_percent(Workspace& workspace, const Value& format, const Value& argument);

/// format.format(…). Fields reach into values as the sandbox allows: {0.name[key]}.
Value format_braces(Workspace& workspace, const Value& format, const Arguments& arguments);

}  // namespace reprise::protocol::jinja
