#pragma once
// JSON as text, piece by piece: strings, numbers, and the layout that Python's json.dumps gives.
//
// Strings are taken to be UTF-8. Doubles are written with the fewest digits that read back as the same
// number, in the form of Python's repr: 1.0, 0.1, 1e+22.
//
// Threading: pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise {

/// How a value is laid out. The defaults are compact: {"a":[1,2]}.
struct JsonStyle {
  std::string item_separator = ",";
  std::string key_separator = ":";
  std::optional<std::string> indent{};  // of one level; set: one item a line
  bool ensure_ascii = false;            // \uXXXX for all that is not ASCII
  bool sort_keys = false;               // by code point
  bool python_numbers = false;          // NaN and Infinity, which JSON has no form for; else null

  /// As Python's json.dumps(value, ensure_ascii=False): {"a": [1, 2]}.
  static JsonStyle python();
};

void append_json_string(std::string& out, std::string_view text, bool ensure_ascii = false);
void append_integer(std::string& out, std::int64_t value);

/// As Python's repr(float): always with a point, an exponent, or one of the words nan, inf, -inf.
void append_python_double(std::string& out, double value);

/// As Python's json.dumps, or null for what JSON cannot say.
void append_json_double(std::string& out, double value, bool python_numbers);

}  // namespace reprise
