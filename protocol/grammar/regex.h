#pragma once
// Regular expressions as JSON Schema's `pattern` and the `regex` of a request have them: the regular part of
// ECMA-262's (and Python's) syntax, over code points.
//
// A pattern becomes an Nfa: nodes with the characters that lead on. What is not regular (back references) or not
// known here (look around, \b) is a GrammarError that names it.
//
// Threading: pure functions.

#include <cstdint>
#include <string_view>
#include <vector>

#include "protocol/grammar/char_set.h"
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

/// `anywhere`: as patterns are searched for; else the whole text must match.
Nfa parse_regex(std::string_view pattern, bool anywhere, WorkBudget& budget);

}  // namespace reprise::protocol::grammar
