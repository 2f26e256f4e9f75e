#pragma once
// Sets of code points, and byte-wise decoding of characters, in UTF-8 and as escaped in JSON strings.

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

namespace reprise::protocol::grammar {

inline constexpr std::uint32_t kMaxCodePoint = 0x10FFFF;

struct CharRange {
  std::uint32_t low = 0;
  std::uint32_t high = 0;  // inclusive

  auto operator<=>(const CharRange&) const = default;
};

/// A set of Unicode code points, stored as sorted ranges that are neither adjacent nor overlapping. Never
/// contains surrogates.
class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CharRange> ranges);
  /// Accepts ranges in any order, also overlapping. Sorts once, which is faster than adding them one by one.
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

/// Decoder state within a character, in 32 bits so that it fits in a matcher state; 0: between characters.
/// Each step gives the code points that are still possible (one range, or two after \u, where a surrogate
/// pair may follow), so that an automaton over characters can reject early.
using CharProgress = std::uint32_t;

struct CharStep {
  enum class Kind : std::uint8_t {
    kBad,    // invalid byte
    kWhole,  // a complete character, `code_point`
    kPart,   // an incomplete character: `progress`, and the possible ranges
    kQuote,  // the closing quote; only between characters
  };
  Kind kind = Kind::kBad;
  std::uint32_t code_point = 0;
  CharProgress progress = 0;
  CharRange possible{1, 0};  // empty if low > high
  CharRange possible2{1, 0};
};

CharStep utf8_step(CharProgress progress, std::uint8_t byte);

/// Decodes the next byte of a JSON string after its opening quote.
CharStep json_step(CharProgress progress, std::uint8_t byte);

/// Returns the value of a hexadecimal digit of either case; nothing for other characters.
inline std::optional<std::uint32_t> hex_digit(char c) {
  const char low = static_cast<char>(c | 0x20);
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0');
  if (low >= 'a' && low <= 'f') return static_cast<std::uint32_t>(low - 'a' + 10);
  return std::nullopt;
}

}  // namespace reprise::protocol::grammar
