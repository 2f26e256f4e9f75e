#pragma once
// Text as Python sees it: a row of code points. All text here is valid UTF-8.
//
// Classes and case mappings are utf8proc's, so they are as new as the installed library.
// Threading: pure functions.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace reprise::protocol::jinja {

/// Bytes of the character that begins with this byte.
inline std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// The code point at text[at]; moves `at` behind it.
inline char32_t next_code_point(std::string_view text, std::size_t& at) {
  const Utf8Char character = read_utf8(text, at);
  at += character.length;
  return character.code_point;
}

std::size_t count_code_points(std::string_view text);

/// The byte where the n-th code point begins; text.size() past the end.
std::size_t byte_offset(std::string_view text, std::size_t code_point);

std::u32string to_code_points(std::string_view text);
std::string to_utf8(std::u32string_view code_points);

// As the methods of Python's str on one character.
bool is_space(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);    // also superscripts
bool is_numeric(char32_t c);  // also fractions
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_printable(char32_t c);
bool is_word(char32_t c);  // \w
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
