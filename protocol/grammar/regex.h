#pragma once
// Regular expressions of JSON Schema's `pattern` and of `regex` requests: the regular subset of ECMA-262 (and
// Python) syntax, over code points. Those of Lark grammars and tools follow Python where the dialects differ,
// except that \d, \w and \s are ASCII.
//
// A pattern is parsed to an Nfa. Constructs that are not regular (back references) or not supported
// (lookaround, \b) throw a GrammarError that names them.

#include <cstdint>
#include <string_view>
#include <vector>

#include "protocol/grammar/characters.h"
#include "protocol/grammar/work_budget.h"

namespace reprise::protocol::grammar {

struct NfaNode {
  enum class Kind : std::uint8_t {
    kChars,  // one character of `set`, then `next`
    kSplit,  // `next` or `other`
    kBegin,  // `next`, only at the beginning of the text
    kEnd,    // `next`, only at the end of the text
    kMatch,
  };
  Kind kind = Kind::kMatch;
  std::uint32_t next = 0;
  std::uint32_t other = 0;
  std::uint32_t set = 0;  // kChars: index into Nfa::sets
};

struct Nfa {
  std::vector<NfaNode> nodes{};
  std::vector<CharSet> sets{};  // without duplicates
  std::uint32_t start = 0;
  bool anywhere = false;  // matches may begin and end anywhere in the text
};

enum class RegexDialect : std::uint8_t {
  kEcma,
  kPython,  // '.' excludes only \n, a leading ']' in a class is literal, unknown letter escapes are an error
};

struct RegexOptions {
  bool anywhere = false;  // search semantics; false: the whole text must match
  RegexDialect dialect = RegexDialect::kEcma;
  bool ignores_case = false;  // ASCII letters only; other non-ASCII characters are an error then
  bool dot_is_any = false;    // '.' matches \n too
  bool refuses_ends = false;  // reject '^' and '$', for patterns of a part of a text
};

Nfa parse_regex(std::string_view pattern, const RegexOptions& options, WorkBudget& budget);
/// Parses in the ECMA-262 dialect.
inline Nfa parse_regex(std::string_view pattern, bool anywhere, WorkBudget& budget) {
  return parse_regex(pattern, RegexOptions{.anywhere = anywhere}, budget);
}

}  // namespace reprise::protocol::grammar
