#pragma once
// UTF-8 decoding, with replacement of malformed bytes.
//
// As the Unicode standard recommends, and as Rust's String::from_utf8_lossy does, a maximal subpart (the
// longest truncated character, else one byte) is one error and becomes one U+FFFD. Surrogates, overlong forms
// and code points above U+10FFFF are malformed.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct Utf8Char {
  char32_t code_point = kReplacementCharacter;
  std::uint8_t length = 0;  // bytes consumed, at least 1
  bool is_valid = false;    // false: `length` bytes are a malformed subpart
  bool is_partial = false;  // malformed only because the text ends; more bytes may complete it
};

/// Decodes the character at text[at]. Requires at < text.size().
Utf8Char read_utf8(std::string_view text, std::size_t at);

/// Like read_utf8, for valid UTF-8 only.
inline Utf8Char read_valid_utf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true, false};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3Fu), 2, true, false};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu), 3, true, false};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu), 4, true,
          false};
}

std::size_t valid_utf8_prefix(std::string_view text);

inline bool is_utf8(std::string_view text) {
  return valid_utf8_prefix(text) == text.size();
}

/// Returns the start of the character that ends at `end`. Requires valid text and 0 < end <= text.size().
std::size_t previous_utf8(std::string_view text, std::size_t end);

/// Requires a Unicode scalar value.
void append_utf8(std::string& out, char32_t code_point);

/// Appends `text`, each malformed subpart replaced by U+FFFD.
void append_valid_utf8(std::string& out, std::string_view text);

/// Returns `text`, each malformed subpart replaced by U+FFFD.
inline std::string as_utf8(std::string_view text) {
  std::string out;
  append_valid_utf8(out, text);
  return out;
}

}  // namespace reprise
