#pragma once
// One formatted field: numbers and text with sign, digits, width and fill.
//
// Threading: pure functions.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

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
