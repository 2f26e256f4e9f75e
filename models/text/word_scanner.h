#pragma once
// The word patterns of GPT-2, Llama 3, Qwen and their relatives, scanned by hand.
//
// These patterns cut a text into words that cover it without gaps. The scanner gives the very words that the
// regular expression would, several times faster, and reads every character at most a few times, whatever the
// text. Which expression it stands for is regex() of the pattern; find_word_pattern() recognises it.
//
// Threading: pure functions.

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
    kUnicode,  // (?i:'s), which takes U+017F as well
  };

  Family family = Family::kLlama3;
  Case contractions = Case::kUnicode;  // kGpt2: always kLower
  bool marks_are_letters = false;      // kLlama3: [\p{L}\p{M}]+ for \p{L}+, and no marks among the symbols
  int most_digits = 3;                 // kLlama3: 1, 2 or 3; 0 for any number

  bool operator==(const WordPattern&) const = default;
};

/// The expression that the pattern stands for, in Oniguruma's syntax.
std::string regex(const WordPattern& pattern);

/// The pattern whose expression this is; nothing for any other expression.
std::optional<WordPattern> find_word_pattern(std::string_view regex);

/// The end of the word that begins at `begin`. Needs valid UTF-8 and begin < text.size(). Adds the number of
/// characters looked at to `scanned`.
std::size_t next_word(const WordPattern& pattern, std::string_view text, std::size_t begin,
                      std::uint64_t& scanned);

}  // namespace reprise::models
