#pragma once
// The byte limit that all state stores of a device share.
//
// `used` counts blocks that are held; a store takes bytes here before it takes a block, so `used` never
// exceeds the limit. `resident` counts all memory of the stores, including free blocks, which the stores
// release before it would exceed the limit.
//
// Fragmentation: the memory may have enough free bytes but no block of the required size. A store reports
// this with note_fragmented(); has_room() is then false for blocks of that size until something is freed.
//
// Threading: the device worker's thread only.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace reprise::gpu {

class ByteBudget {
 public:
  using Trim = std::function<std::size_t()>;  // frees the memory of unused blocks; returns the bytes freed

  explicit ByteBudget(std::size_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_; }
  std::size_t free() const { return used_ < limit_ ? limit_ - used_ : 0; }
  /// Frees nothing if below used(): take() fails until enough is given back.
  void set_limit(std::size_t limit) { limit_ = limit; }
  /// True if `bytes` fit, in blocks of at most `block` bytes each.
  bool has_room(std::size_t bytes, std::size_t block) const {
    return bytes <= free() && block < smallest_refused_;
  }

  [[nodiscard]] bool take(std::size_t bytes) {
    if (bytes > free()) return false;
    used_ += bytes;
    return true;
  }
  void give(std::size_t bytes) {
    used_ -= bytes;
    smallest_refused_ = kNone;
  }

  /// Records that the memory had no block of this size, even after trim().
  void note_fragmented(std::size_t block) { smallest_refused_ = std::min(smallest_refused_, block); }

  /// Call before allocating new memory; trims first if the limit would be exceeded.
  void grow_resident(std::size_t bytes) {
    if (resident_ + bytes > limit_) trim();
    resident_ += bytes;
  }
  void shrink_resident(std::size_t bytes) { resident_ -= bytes; }
  std::size_t resident() const { return resident_; }

  /// Makes all stores free the memory of unused blocks.
  void trim() {
    for (const auto& [owner, trim] : trims_) resident_ -= trim();
  }
  void add_trim(const void* owner, Trim trim) { trims_.emplace_back(owner, std::move(trim)); }
  void remove_trim(const void* owner) {
    std::erase_if(trims_, [owner](const auto& entry) { return entry.first == owner; });
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  std::size_t limit_;
  std::size_t used_ = 0;
  std::size_t resident_ = 0;
  std::size_t smallest_refused_ = kNone;  // smallest block that failed since the last give()
  std::vector<std::pair<const void*, Trim>> trims_;
};

}  // namespace reprise::gpu
