#pragma once
// Text helpers for calls: JSON whitespace and string escapes.

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

/// Returns `text` escaped for a JSON string, without quotes.
inline std::string json_escaped(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return quoted.substr(1, quoted.size() - 2);
}

/// Returns a character of the model's JSON, escaped if it is a control character inside a string, which JSON
/// forbids.
inline std::string json_mended(char c, bool in_string) {
  if (in_string && static_cast<unsigned char>(c) < 0x20) return json_escaped({&c, 1});
  return std::string(1, c);
}

}  // namespace reprise::protocol
