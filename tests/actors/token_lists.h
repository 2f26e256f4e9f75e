#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

#include "base/token.h"

namespace reprise::actors {

using List = TokenList;

/// Returns tokens that exist in any vocabulary.
inline TokenList random_tokens(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  TokenList tokens(count);
  for (auto& token : tokens) token = static_cast<TokenId>(3 + random() % 490);
  return tokens;
}

inline TokenList operator+(TokenList a, const TokenList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline TokenList first(const TokenList& tokens, std::size_t count) {
  return TokenList(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace reprise::actors
