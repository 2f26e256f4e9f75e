#pragma once
// What tokenizers ask of Unicode: classes of characters, and normal forms.
//
// The data is utf8proc's, so it is as new as the installed library. White space is the White_Space property,
// which is what \s means in the regular expressions that tokenizers are published with.
//
// Threading: pure functions.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::models {

/// Bits of char_class(). A character has exactly one of the first five; kNewline comes on top of kSpace.
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

/// The class of a code point past ASCII.
std::uint8_t wide_char_class(char32_t code_point);

inline std::uint8_t char_class(char32_t code_point) {
  return code_point < 128 ? kAsciiClass[code_point] : wide_char_class(code_point);
}

/// \w: letters, marks, decimal digits, letter-like numbers, connector punctuation.
bool is_word_character(char32_t code_point);

/// \p{P}, and the symbols of ASCII.
bool is_punctuation(char32_t code_point);

/// \p{C} without unassigned code points.
bool is_control(char32_t code_point);

/// The lower-case form, if it is one character; else the character itself.
char32_t to_lower(char32_t code_point);

enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };

/// True if `text` is its own normal form for a reason that is quick to see. False says nothing.
bool is_plainly_normal(std::string_view text, NormalForm form);

/// Needs valid UTF-8. Time is O(n log n) whatever the text: runs of combining marks are sorted, not bubbled.
std::string normalize(std::string_view text, NormalForm form);

}  // namespace reprise::models
