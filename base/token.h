#pragma once
// Tokens as they travel between actors: numbers in a vocabulary, shared and never changed.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace reprise {

using TokenId = std::int32_t;
using TokenList = std::vector<TokenId>;

/// A prompt is read by several actors at once and may be long, so it is not copied from message to message.
using SharedTokens = std::shared_ptr<const TokenList>;

inline SharedTokens share_tokens(TokenList tokens) {
  return std::make_shared<const TokenList>(std::move(tokens));
}

}  // namespace reprise
