#pragma once
// Python's str(), repr() and format(), and type names for messages.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

/// Returns "str", "int", "NoneType", "dict", ...
std::string type_name(const Value& value);

/// Returns how Jinja's error messages name the value: "dict object", "None".
std::string describe(const Value& value);

/// Append or return str(value); an undefined value gives an empty string.
void append_str(Workspace& workspace, std::string& out, const Value& value);
std::string to_str(Workspace& workspace, const Value& value);

/// Returns the value itself if it is a string, else str(value).
Value as_text(Workspace& workspace, const Value& value);

void append_repr(Workspace& workspace, std::string& out, const Value& value);
void append_string_repr(std::string& out, std::string_view text);
std::string string_repr(std::string_view text);

/// Returns the beginning of a text for an error message, with "..." if it was cut.
std::string shown_part(std::string_view text);

/// Replaces & < > " ' by HTML entities.
std::string escape_html(std::string_view text);

/// Returns format % argument; a tuple is a list of arguments, a dict has named arguments.
Value format_percent(Workspace& workspace, const Value& format, const Value& argument);

/// Returns format.format(...). Fields may access parts of values as the sandbox allows: {0.name[key]}.
Value format_braces(Workspace& workspace, const Value& format, const Arguments& arguments);

/// A parsed format spec (after the colon of {:>8.2f}), or the equivalent of a % field.
struct FormatSpec {
  char32_t fill = ' ';
  char align = 0;   // < > ^ =; 0: the type's default
  char sign = '-';  // - + or space
  bool alternate = false;
  bool zero = false;
  std::size_t width = 0;
  char grouping = 0;  // ',' or '_'; 0: none
  std::optional<int> precision{};
  char type = 0;
  bool sign_given = false;
  bool is_empty = false;  // the spec was empty
};

/// Fails for an invalid spec.
FormatSpec parse_format_spec(Workspace& workspace, std::string_view text);

/// Returns format(value, spec). Fails if the spec does not apply to the value's type.
std::string format_value(Workspace& workspace, const Value& value, const FormatSpec& spec);

/// Format with the spec's type (d x X o b, e E f F g G %), including the sign, without padding.
std::string format_integer(std::int64_t value, const FormatSpec& spec);
std::string format_double(double value, const FormatSpec& spec);

/// Pads to the spec's width; `is_number`: zeros go after the sign.
std::string pad(Workspace& workspace, std::string text, const FormatSpec& spec, bool is_number);

}  // namespace reprise::protocol::jinja
