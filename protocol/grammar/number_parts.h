#pragma once
// Bounds and multiples of numbers that are written in decimal, as parts of an automaton over their characters.
// The text is a JSON number without an exponent.
//
// Threading: pure functions.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "protocol/grammar/char_dfa.h"

namespace reprise::protocol::grammar {

/// A decimal number: digits * 10^-places, with its sign apart.
struct Decimal {
  bool negative = false;
  std::string digits{};    // of the whole part, without zeros in front but one
  std::string fraction{};  // without zeros at its end

  /// Nothing for what has too many digits to be written out.
  static std::optional<Decimal> of(const Json& number);
};

/// The verdict: 1 below the bound, 2 equal, 3 above it.
std::unique_ptr<CharPart> compared_to(const Decimal& bound);

/// Yes for multiples of it. Throws GrammarError for a divisor of too many digits.
std::unique_ptr<CharPart> multiple_of(const Decimal& divisor);

}  // namespace reprise::protocol::grammar
