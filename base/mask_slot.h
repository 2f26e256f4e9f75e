#pragma once
// MaskSlot: where the maker of masks leaves the mask of a sequence's next token, and whoever chooses the token finds
// it, each on a thread of its own. A mask is of one step; there is never more than one.
//
// Threading: any thread.

#include <cstdint>
#include <mutex>
#include <utility>

#include "base/token_mask.h"

namespace reprise {

class MaskSlot {
 public:
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

 private:
  mutable std::mutex lock_;
  std::uint64_t step_ = 0;
  SharedMask mask_;
};

}  // namespace reprise
