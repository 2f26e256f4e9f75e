#pragma once
// MergeTable: which two neighbouring tokens merge into which, and in what order merges are done.
//
// Threading: immutable once built; const access from any thread.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "models/text/tokenizer_spec.h"

namespace reprise::models {

class MergeTable {
 public:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  struct Merge {
    std::uint32_t rank = kNever;  // lower is earlier; unique
    TokenId token = 0;            // what the two become
  };

  explicit MergeTable(std::size_t merges = 0);

  /// Of two merges of the same pair the later counts. Needs ids >= 0 and room for one more.
  void add(TokenId left, TokenId right, Merge merge);

  Merge find(TokenId left, TokenId right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].merge;
      if (slots_[slot].key == kFree) return {};
    }
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };

  static std::uint64_t key_of(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u;
    return (key ^ key >> 32) & mask_;
  }

  std::size_t mask_;
  std::vector<Slot> slots_;  // open addressing, at most half full
};

}  // namespace reprise::models
