#pragma once
// Python's string operations on code points of valid UTF-8. Character classes and case mappings come from
// utf8proc, so the Unicode version is that of the installed library.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace reprise::protocol::jinja {

/// Returns a character's length from its first byte.
inline std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Returns the code point at text[at] and advances `at`.
inline char32_t next_code_point(std::string_view text, std::size_t& at) {
  const Utf8Char character = read_utf8(text, at);
  at += character.length;
  return character.code_point;
}

std::size_t count_code_points(std::string_view text);

/// Returns the byte offset of the n-th code point, or text.size().
std::size_t byte_offset(std::string_view text, std::size_t code_point);

std::u32string to_code_points(std::string_view text);
std::string to_utf8(std::u32string_view code_points);

// Python's str methods, for one character.
bool is_space(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);    // includes superscripts
bool is_numeric(char32_t c);  // includes fractions
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_printable(char32_t c);
bool is_word(char32_t c);  // \w of regular expressions
inline bool is_alnum(char32_t c) {
  return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c);
}
inline bool is_cased(char32_t c) {
  return is_lower(c) || is_upper(c) || is_title(c);
}

void append_upper(std::string& out, char32_t c);
void append_lower(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);

}  // namespace reprise::protocol::jinja
