#pragma once
// Hand-written scanners for the word patterns of GPT-2, Llama 3, Qwen and relatives.
//
// These patterns split a text into words that cover it without gaps. The scanner returns the same words as
// the regular expression, several times faster, and examines every character at most a few times. regex()
// returns the expression a pattern stands for, find_word_pattern() is its inverse.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::models {

struct WordPattern {
  enum class Family : std::uint8_t {
    kGpt2,    // 's|'t|…| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    kLlama3,  // 's|'t|…|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
              // ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  };
  enum class Case : std::uint8_t {
    kLower,    // 's
    kAscii,    // 's or 'S
    kUnicode,  // (?i:'s), which also matches U+017F
  };

  Family family = Family::kLlama3;
  Case contractions = Case::kUnicode;  // kGpt2: always kLower
  bool marks_are_letters = false;      // kLlama3: [\p{L}\p{M}]+ instead of \p{L}+, and symbols exclude marks
  int max_digits = 3;                  // kLlama3: 1, 2 or 3; 0: unlimited

  bool operator==(const WordPattern&) const = default;
};

/// The expression of the pattern, in Oniguruma's syntax.
std::string regex(const WordPattern& pattern);

/// The pattern with this expression; nullopt for any other expression.
std::optional<WordPattern> find_word_pattern(std::string_view regex);

/// Returns the end of the word that begins at `begin`, and adds the number of characters examined to
/// `scanned`. Requires: valid UTF-8 and begin < text.size().
std::size_t next_word(const WordPattern& pattern, std::string_view text, std::size_t begin,
                      std::uint64_t& scanned);

}  // namespace reprise::models
