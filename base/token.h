#pragma once
// Token ids, and immutable shared token lists for messages between actors.

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace reprise {

using TokenId = std::int32_t;
using TokenList = std::vector<TokenId>;

/// Shared, because several actors read a prompt and it may be long.
using SharedTokens = std::shared_ptr<const TokenList>;

inline SharedTokens share_tokens(TokenList tokens) {
  return std::make_shared<const TokenList>(std::move(tokens));
}

/// Returns the hash of `tokens` appended to a prefix whose hash is `before`.
inline std::uint64_t token_hash(std::span<const TokenId> tokens, std::uint64_t before = 0) {
  std::uint64_t hash = before;
  for (const TokenId token : tokens) {
    hash = (hash ^ static_cast<std::uint32_t>(token)) + 0x9e3779b97f4a7c15;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
    hash ^= hash >> 31;
  }
  return hash;
}

}  // namespace reprise
