#pragma once
// Growers: texts of up to 1 MiB from a few bytes, in the languages that clients and model files may send to be compiled or
// run. They repeat, nest, chain and fan out what a language has, for that is what costs a compiler stack, memory and time:
// quantifiers on quantifiers, brackets in brackets, alternatives by the thousand, rules and definitions that lead on to the
// next or back to each other, loops in loops. Most results are valid; all of them are near enough to reach far.

#include <cstddef>
#include <string>

#include "base/json.h"
#include "tests/fuzz/draws.h"

namespace reprise::fuzz {

inline constexpr std::size_t kMaxGrownBytes = std::size_t{1} << 20;

/// A size from 100 bytes to 1 MiB; each order of magnitude is equally likely.
std::size_t grown_size(Draws& draws);

// Each aims at `bytes`; the result has kMaxGrownBytes at most.
std::string grow_regex(Draws& draws, std::size_t bytes);
std::string grow_gbnf(Draws& draws, std::size_t bytes);
std::string grow_jinja(Draws& draws, std::size_t bytes);
/// As text it may be somewhat longer than kMaxGrownBytes.
Json grow_schema(Draws& draws, std::size_t bytes);

}  // namespace reprise::fuzz
