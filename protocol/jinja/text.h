#pragma once
// Values as text: Python's str() and repr(), and the names of types for messages.
//
// Threading: pure functions on values of one rendering.

#include <string>
#include <string_view>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

/// "str", "int", "NoneType", "dict", …
std::string type_name(const Value& value);

/// As error messages of Jinja name a value: "dict object", "None".
std::string describe(const Value& value);

/// str(value); appends nothing for an undefined value.
void append_str(Workspace& workspace, std::string& out, const Value& value);
std::string to_str(Workspace& workspace, const Value& value);

/// The value itself if it is a string, else str(value).
Value as_text(Workspace& workspace, const Value& value);

void append_repr(Workspace& workspace, std::string& out, const Value& value);
void append_string_repr(std::string& out, std::string_view text);
std::string string_repr(std::string_view text);

/// What an error shows of a text that may be long: its beginning, and "..." where it is cut off.
std::string shown_part(std::string_view text);

/// The characters & < > " ' as HTML entities.
std::string escape_html(std::string_view text);

}  // namespace reprise::protocol::jinja
