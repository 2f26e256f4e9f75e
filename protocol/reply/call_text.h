#pragma once
// Text in calls: the white space of JSON, and the inside of a JSON string.
//
// Threading: pure functions.

#include <string>
#include <string_view>

#include "base/json_text.h"

namespace reprise::protocol {

inline bool is_json_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
  return text;
}

/// As a JSON string has it, without the quotes.
inline std::string json_escaped(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return quoted.substr(1, quoted.size() - 2);
}

/// A character of JSON that a model wrote, inside a string or not: line breaks that JSON forbids in strings
/// are escaped.
inline std::string json_mended(char c, bool in_string) {
  if (in_string && static_cast<unsigned char>(c) < 0x20) return json_escaped({&c, 1});
  return std::string(1, c);
}

}  // namespace reprise::protocol
