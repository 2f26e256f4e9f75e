#pragma once
// Characters of a text: sets of code points, and characters byte by byte, in UTF-8 as they are and as JSON strings
// escape them.
//
// Threading: plain values and pure functions.

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

namespace reprise::protocol::grammar {

inline constexpr std::uint32_t kMostCodePoint = 0x10FFFF;

struct CharRange {
  std::uint32_t low = 0;
  std::uint32_t high = 0;  // is in it

  auto operator<=>(const CharRange&) const = default;
};

/// A set of Unicode code points, as ascending ranges that neither touch nor overlap. Surrogates are never in it: they
/// are no characters.
class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CharRange> ranges);
  /// In any order, with overlap; in the time of sorting them, which adding them one by one is not.
  explicit CharSet(std::vector<CharRange> ranges);
  static CharSet all();

  void add(std::uint32_t low, std::uint32_t high);
  void add(const CharSet& other);
  CharSet complement() const;

  const std::vector<CharRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool has(std::uint32_t code_point) const;

  auto operator<=>(const CharSet&) const = default;

 private:
  std::vector<CharRange> ranges_;
};

/// What is known of a character that is not whole yet, in 32 bits, so that it can be part of a matcher's state; 0 is
/// between two characters. Each byte gives the code points that are still possible (one range, or two behind \u, where a
/// surrogate pair may follow), so that an automaton over characters can tell at once whether one of them leads on.
using CharProgress = std::uint32_t;

struct CharStep {
  enum class Kind : std::uint8_t {
    kBad,    // no character goes on so
    kWhole,  // code_point
    kPart,   // progress; it may become one of `low` to `high`, or of `low2` to `high2`
    kQuote,  // the string ends; between characters alone
  };
  Kind kind = Kind::kBad;
  std::uint32_t code_point = 0;
  CharProgress progress = 0;
  CharRange possible{1, 0};  // empty where low > high
  CharRange possible2{1, 0};
};

/// The next byte of text in UTF-8.
CharStep utf8_step(CharProgress progress, std::uint8_t byte);

/// The next byte of a JSON string, behind its opening quote.
CharStep json_step(CharProgress progress, std::uint8_t byte);

/// The digit of an escape that names a code point (\x41, \u0041), of either case. Nothing: it is none.
inline std::optional<std::uint32_t> hex_digit(char c) {
  const char low = static_cast<char>(c | 0x20);
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0');
  if (low >= 'a' && low <= 'f') return static_cast<std::uint32_t>(low - 'a' + 10);
  return std::nullopt;
}

}  // namespace reprise::protocol::grammar
