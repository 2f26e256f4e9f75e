#pragma once
// Writes JSON as text: strings, numbers, and layout as Python's json.dumps.
//
// Strings must be UTF-8. Doubles get the shortest digits that read back as the same value, in the form of
// Python's repr: 1.0, 0.1, 1e+22.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise {

/// Layout options. The default is compact: {"a":[1,2]}.
struct JsonStyle {
  std::string item_separator = ",";
  std::string key_separator = ":";
  std::optional<std::string> indent{};  // of one level; if set, one item per line
  bool ensure_ascii = false;            // write non-ASCII as \uXXXX
  bool sort_keys = false;               // by code point
  bool python_numbers = false;          // write NaN and Infinity, which are not JSON; otherwise null

  /// The layout of Python's json.dumps(value, ensure_ascii=False): {"a": [1, 2]}.
  static JsonStyle python();
};

void append_json_string(std::string& out, std::string_view text, bool ensure_ascii = false);
void append_integer(std::string& out, std::int64_t value);

/// Appends as Python's repr(float): always with a point, an exponent, or as nan, inf, -inf.
void append_python_double(std::string& out, double value);

/// Appends as Python's json.dumps, or null for NaN and infinities unless `python_numbers`.
void append_json_double(std::string& out, double value, bool python_numbers);

}  // namespace reprise
