#pragma once
// Values as text: Python's str(), repr() and format(), and the names of types for messages.
//
// Threading: pure functions on values of one rendering.

#include <cstddef>
#include <optional>
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

// Python's two ways to format: 'x is %d' % 3 and 'x is {}'.format(3).

/// format % argument, where a tuple is a row of arguments and a dict names them.
Value format_percent(Workspace& workspace, const Value& format, const Value& argument);

/// format.format(…). Fields reach into values as the sandbox allows: {0.name[key]}.
Value format_braces(Workspace& workspace, const Value& format, const Arguments& arguments);

/// What stands behind the colon of {:>8.2f}, and what a % field says in its own way.
struct FormatSpec {
  char32_t fill = ' ';
  char align = 0;   // < > ^ =, or 0 for what the type does
  char sign = '-';  // - + or space
  bool alternate = false;
  bool zero = false;
  std::size_t width = 0;
  char grouping = 0;  // , _ or 0
  std::optional<int> precision{};
  char type = 0;
  bool sign_given = false;
  bool is_empty = false;  // nothing stood behind the colon
};

/// Fails for what is no spec.
FormatSpec parse_format_spec(Workspace& workspace, std::string_view text);

/// format(value, spec). Fails for types that do not go with the value.
std::string format_value(Workspace& workspace, const Value& value, const FormatSpec& spec);

/// Text of `type` (d x X o b, e E f F g G %) without width; the sign is in front.
std::string format_integer(std::int64_t value, const FormatSpec& spec);
std::string format_double(double value, const FormatSpec& spec);

/// Fills up to the width of the spec; `is_number` puts zeros behind the sign.
std::string pad(Workspace& workspace, std::string text, const FormatSpec& spec, bool is_number);

}  // namespace reprise::protocol::jinja
