#include "models/text/regex_class.h"

namespace reprise::models {

std::string join(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) out += part;
  return out;
}

std::string_view set_of(char letter) {
  switch (letter) {
    case 's':
    case 'S':
      return R"(\t-\r\x{85}\p{Z})";
    case 'w':
    case 'W':
      return kWordCharacters;
    case 'd':
    case 'D':
      return R"(\p{Nd})";
    case 'h':
    case 'H':
      return "0-9A-Fa-f";
    default:
      return {};
  }
}

std::string bracket(std::string_view items, bool negated) {
  return join({negated ? "[^" : "[", items, "]"});
}

std::string to_pattern(const CharSet& set) {
  if (set.is_plain()) return bracket(set.items, set.negated);
  std::string one;
  if (!set.items.empty()) one = bracket(set.items);
  for (const CharSet& nested : set.nested) {
    if (!one.empty()) one += '|';
    one += to_pattern(nested);
  }
  std::string conditions;
  for (const CharSet& other : set.others) conditions += join({"(?=", to_pattern(other), ")"});
  if (!conditions.empty()) one = join({conditions, "(?:", one, ")"});
  if (!set.negated) return join({"(?:", one, ")"});
  return join({"(?:(?!", one, ")", "(?s:.)", ")"});
}

}  // namespace reprise::models
