#pragma once
// Unicode functions of tokenizers: character classes and normal forms.
//
// The data is utf8proc's, so its Unicode version is that of the installed library. White space is the
// White_Space property, which \s means in the regular expressions of published tokenizers.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::models {

/// Bits of char_class(). A character has exactly one of the first five; kNewline is set in addition to
/// kSpace.
enum CharClass : std::uint8_t {
  kLetter = 1,    // \p{L}
  kMark = 2,      // \p{M}
  kNumber = 4,    // \p{N}
  kSpace = 8,     // \s
  kOther = 16,    // everything else
  kNewline = 32,  // \r or \n
};

inline constexpr std::array<std::uint8_t, 128> kAsciiClass = [] {
  std::array<std::uint8_t, 128> classes{};
  for (int c = 0; c < 128; ++c) {
    std::uint8_t bits = kOther;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) bits = kLetter;
    if (c >= '0' && c <= '9') bits = kNumber;
    if (c == ' ' || (c >= '\t' && c <= '\r')) bits = kSpace;
    if (c == '\r' || c == '\n') bits |= kNewline;
    classes[c] = bits;
  }
  return classes;
}();

std::uint8_t wide_char_class(char32_t code_point);

inline std::uint8_t char_class(char32_t code_point) {
  return code_point < 128 ? kAsciiClass[code_point] : wide_char_class(code_point);
}

/// \w: letters, marks, decimal digits, letter-like numbers, connector punctuation.
bool is_word_character(char32_t code_point);

/// \p{P} and the ASCII symbols.
bool is_punctuation(char32_t code_point);

/// \p{C} without unassigned code points.
bool is_control(char32_t code_point);

/// The lower-case form if it is a single character; else the character itself.
char32_t to_lower(char32_t code_point);

enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };

/// Quick check: true if `text` is certainly in normal form. False means unknown.
bool is_plainly_normal(std::string_view text, NormalForm form);

/// Requires: valid UTF-8. O(n log n) for any text, even long runs of combining marks.
std::string normalize(std::string_view text, NormalForm form);

}  // namespace reprise::models
