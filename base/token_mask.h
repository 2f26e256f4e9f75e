#pragma once
// TokenMask: the tokens of a vocabulary that may come next. MaskSlot: passes it to the thread that samples.
//
// Threading: a mask is immutable and shared; a slot may be used from any thread.

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
  std::uint32_t count = 0;            // number of allowed tokens
  bool ends = false;                  // no token is allowed because the reply is complete

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

/// Passes the mask for a sequence's next token from its producer to the sampling thread. Holds one mask, for
/// one step. Steps before the first masked one need none.
class MaskSlot {
 public:
  static constexpr std::uint64_t kNoStep = UINT64_MAX;

  /// `first_masked`: first step that needs a mask; kNoStep: none.
  explicit MaskSlot(std::uint64_t first_masked = 0) : first_masked_(first_masked) {}

  void put(std::uint64_t step, SharedMask mask) {
    const std::lock_guard<std::mutex> held(lock_);
    step_ = step;
    mask_ = std::move(mask);
  }
  /// Returns null if the mask for `step` is not there yet.
  SharedMask at(std::uint64_t step) const {
    const std::lock_guard<std::mutex> held(lock_);
    return step_ == step ? mask_ : nullptr;
  }

  /// Returns whether a mask is needed before the token of this step can be sampled.
  bool is_masked(std::uint64_t step) const {
    // Relaxed: a step that reads an old value precedes the change.
    return step >= first_masked_.load(std::memory_order_relaxed);
  }
  /// Sets the first step that needs a mask. Returns whether that is a change.
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
