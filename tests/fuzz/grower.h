#pragma once
// Growers make texts of up to 1 MiB from a few bytes, in the languages that clients and model files may send.
// They repeat, nest, chain and fan out constructs, since that costs a compiler stack, memory and time. Most
// results are valid; the others are nearly so.

#include <cstddef>
#include <string>

#include "base/json.h"
#include "tests/fuzz/draws.h"

namespace reprise::fuzz {

inline constexpr std::size_t kMaxGrownBytes = std::size_t{1} << 20;

/// Draws a size from 100 bytes to 1 MiB, log-uniformly.
std::size_t grown_size(Draws& draws);

// Each returns about `bytes` bytes, at most kMaxGrownBytes.
std::string grow_regex(Draws& draws, std::size_t bytes);
std::string grow_gbnf(Draws& draws, std::size_t bytes);
std::string grow_jinja(Draws& draws, std::size_t bytes);
/// Its text may be slightly longer than kMaxGrownBytes.
Json grow_schema(Draws& draws, std::size_t bytes);

}  // namespace reprise::fuzz
