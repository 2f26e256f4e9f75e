#pragma once
// TokenMask: which tokens of a vocabulary may come next. MaskSlot: where the thread that chooses a token finds its mask.
//
// Threading: a mask is immutable once made, and shared; a slot is for any thread.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
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

/// Hands the mask of a sequence's next token from the maker of masks to the thread that chooses the token. It holds
/// one mask, for one step. Steps before the first masked one need none: every token may be chosen in them.
class MaskSlot {
 public:
  static constexpr std::uint64_t kNoStep = UINT64_MAX;

  /// `first_masked`: the first step that needs a mask; kNoStep: none does.
  explicit MaskSlot(std::uint64_t first_masked = 0) : first_masked_(first_masked) {}

  void put(std::uint64_t step, SharedMask mask) {
    const std::lock_guard<std::mutex> held(lock_);
    step_ = step;
    mask_ = std::move(mask);
  }
  /// Null: not there yet.
  SharedMask at(std::uint64_t step) const {
    const std::lock_guard<std::mutex> held(lock_);
    return step_ == step ? mask_ : nullptr;
  }

  /// Returns whether this step needs a mask before its token is chosen.
  bool is_masked(std::uint64_t step) const {
    // Relaxed: a step that sees an old value is one that came before the change.
    return step >= first_masked_.load(std::memory_order_relaxed);
  }
  /// Changes the first step that needs a mask. Returns whether it was another.
  bool set_first_masked(std::uint64_t step) {
    return first_masked_.exchange(step, std::memory_order_relaxed) != step;
  }

 private:
  mutable std::mutex lock_;
  std::uint64_t step_ = 0;
  SharedMask mask_;
  std::atomic<std::uint64_t> first_masked_;
};

}  // namespace reprise
