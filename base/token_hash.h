#pragma once
// A chained hash of tokens: the hash of a prompt goes on from that of its beginning.

#include <cstdint>
#include <span>

#include "base/token.h"

namespace reprise {

/// Of `tokens`, behind those whose hash is `before`.
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
