#pragma once
// Character classes of regular expressions, in PCRE2's syntax.
//
// Threading: pure functions.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::models {

/// The parts one behind the other.
std::string join(std::initializer_list<std::string_view> parts);

/// What Oniguruma's \w matches, as it stands between brackets.
inline constexpr std::string_view kWordCharacters =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

/// The inside of the class that \s, \w, \d or \h stands for; a capital stands for all but these. Empty for
/// any other letter.
std::string_view set_of(char letter);

/// "[…]" or "[^…]".
std::string bracket(std::string_view items, bool negated = false);

/// A character class: the union of plain items and nested classes, or an intersection of such unions.
struct CharSet {
  bool negated = false;
  std::string items;            // as they stand between brackets
  std::vector<CharSet> nested;  // in the union
  std::vector<CharSet> others;  // intersected with the union

  bool is_plain() const { return nested.empty() && others.empty(); }
};

/// A pattern that matches one character of the set. What PCRE2 has no classes for becomes lookaheads.
std::string to_pattern(const CharSet& set);

}  // namespace reprise::models
