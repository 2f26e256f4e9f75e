#pragma once
// ContentRule: what the characters of a JSON string or key must be, whatever it stands in.
//
// Threading: plain values.

#include <cstdint>

#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

/// What the characters of a string or key must be.
struct ContentRule {
  std::uint32_t dfa = kNowhere;     // kNowhere: any characters, and
  std::uint32_t least = 0;          // so many of them
  std::uint32_t most = kUnbounded;  // no higher than can matter to a token
  std::uint32_t object = kNowhere;  // keys: its ObjectSpec, which has room for keys that are no property's

  auto operator<=>(const ContentRule&) const = default;
};

}  // namespace reprise::protocol::grammar
