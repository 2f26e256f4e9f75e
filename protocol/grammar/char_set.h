#pragma once
// CharSet: a set of Unicode code points, as ascending ranges that neither touch nor overlap. Surrogates are never
// in it: they are no characters.
//
// Threading: plain values.

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace reprise::protocol::grammar {

inline constexpr std::uint32_t kMostCodePoint = 0x10FFFF;

struct CharRange {
  std::uint32_t low = 0;
  std::uint32_t high = 0;  // is in it

  auto operator<=>(const CharRange&) const = default;
};

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

}  // namespace reprise::protocol::grammar
