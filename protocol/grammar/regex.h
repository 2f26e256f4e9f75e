#pragma once
// Regular expressions as JSON Schema's `pattern` and the `regex` of a request have them: the regular part of
// ECMA-262's (and Python's) syntax, over code points. Those of Lark grammars and of tools follow Python's re where the two
// differ, but that \d, \w and \s are ASCII's.
//
// A pattern becomes an Nfa: nodes with the characters that lead on. What is not regular (back references) or not
// known here (look around, \b) is a GrammarError that names it.
//
// Threading: pure functions.

#include <cstdint>
#include <string_view>
#include <vector>

#include "protocol/grammar/characters.h"
#include "protocol/grammar/work_budget.h"

namespace reprise::protocol::grammar {

struct NfaNode {
  enum class Kind : std::uint8_t {
    kChars,  // a character of `set`, then `next`
    kSplit,  // `next` or `other`
    kBegin,  // `next`, at the beginning of the text alone
    kEnd,    // `next`, at its end alone
    kMatch,
  };
  Kind kind = Kind::kMatch;
  std::uint32_t next = 0;
  std::uint32_t other = 0;
  std::uint32_t set = 0;  // kChars: of Nfa::sets
};

struct Nfa {
  std::vector<NfaNode> nodes{};
  std::vector<CharSet> sets{};  // each once
  std::uint32_t start = 0;
  bool anywhere = false;  // a match may begin and end within the text
};

enum class RegexDialect : std::uint8_t {
  kEcma,
  kPython,  // '.' is all but a line feed, a first ']' in a class means itself, unknown escapes of letters are refused
};

struct RegexOptions {
  bool anywhere = false;  // as patterns are searched for; else the whole text must match
  RegexDialect dialect = RegexDialect::kEcma;
  bool ignores_case = false;  // of ASCII's letters; other characters beyond ASCII are refused beside it
  bool dot_is_any = false;    // '.' is a line feed, too
  bool refuses_ends = false;  // '^' and '$', where the pattern is a part of a text
};

Nfa parse_regex(std::string_view pattern, const RegexOptions& options, WorkBudget& budget);
/// In ECMA-262's dialect.
inline Nfa parse_regex(std::string_view pattern, bool anywhere, WorkBudget& budget) {
  return parse_regex(pattern, RegexOptions{.anywhere = anywhere}, budget);
}

}  // namespace reprise::protocol::grammar
