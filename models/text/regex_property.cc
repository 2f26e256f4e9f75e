#include "models/text/regex_property.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>

namespace reprise::models {
namespace {

// Category names, without '_' and in lower case, by their long form.
constexpr std::array<std::pair<std::string_view, std::string_view>, 37> kCategories = {{
    {"letter", "L"},
    {"casedletter", "L&"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"},
}};

constexpr std::array<std::string_view, 30> kScripts = {
    "arabic",    "armenian", "bengali",  "bopomofo", "common", "cyrillic", "devanagari", "ethiopic",
    "georgian",  "greek",    "gujarati", "gurmukhi", "han",    "hangul",   "hebrew",     "hiragana",
    "inherited", "kannada",  "katakana", "khmer",    "lao",    "latin",    "malayalam",  "mongolian",
    "myanmar",   "sinhala",  "tamil",    "telugu",   "thai",   "tibetan"};

}  // namespace

std::string pcre2_property(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if (c == '_' || c == ' ' || c == '-') continue;
    key.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  }
  for (const auto& [long_name, short_name] : kCategories) {
    if (key == long_name) return std::string(short_name);
  }
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
  if (std::find(kScripts.begin(), kScripts.end(), key) != kScripts.end()) return key.insert(0, "sc:");
#endif
  return std::string(name);
}

}  // namespace reprise::models
