#pragma once
// TokenMask: which tokens of a vocabulary may come next.
//
// Threading: immutable once made, and shared.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/token.h"

namespace reprise {

struct TokenMask {
  std::vector<std::uint32_t> bits{};  // [tokens / 32, rounded up]: bit t % 32 of word t / 32
  std::uint32_t count = 0;            // of tokens that may come
  bool ends = false;                  // no token may come because the reply is whole

  explicit TokenMask(std::size_t tokens) : bits((tokens + 31) / 32) {}

  bool allows(TokenId token) const {
    const auto t = static_cast<std::uint32_t>(token);
    return t / 32 < bits.size() && (bits[t / 32] >> (t % 32) & 1) != 0;
  }
  void allow(TokenId token) {
    const auto t = static_cast<std::uint32_t>(token);
    bits[t / 32] |= std::uint32_t{1} << (t % 32);
  }
};

using SharedMask = std::shared_ptr<const TokenMask>;

}  // namespace reprise
