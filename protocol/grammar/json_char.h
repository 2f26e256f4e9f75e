#pragma once
// Characters byte by byte: in UTF-8 as they are, and as JSON strings escape them.
//
// CharProgress is what is known of a character that is not whole yet, in 32 bits, so that it can be part of a
// matcher's state; 0 is between two characters. Each byte gives the code points that are still possible (one range,
// or two behind \u, where a surrogate pair may follow), so that an automaton over characters can tell at once
// whether one of them leads on.
//
// Threading: pure functions.

#include <cstdint>

#include "protocol/grammar/char_set.h"

namespace reprise::protocol::grammar {

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

}  // namespace reprise::protocol::grammar
