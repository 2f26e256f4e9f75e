#pragma once
// The bytes that all state stores of a device share.
//
// `used` counts blocks that somebody holds; a store takes bytes before it takes a block, so the limit is
// never passed. `resident` counts memory that the stores have, free blocks included; before it would pass the
// limit, the stores give free blocks back.
//
// Fragments. The memory may be unable to give a block although there are bytes for it: what is free lies in
// pieces that are too small. A store that met this says so, and until something is given the budget has no
// room for blocks of that size.
//
// Threading: one thread, the device worker's.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace reprise::gpu {

class ByteBudget {
 public:
  using Trim = std::function<std::size_t()>;  // gives the memory of free blocks back; how many bytes

  explicit ByteBudget(std::size_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_; }
  std::size_t free() const { return used_ < limit_ ? limit_ - used_ : 0; }
  /// What is used beyond a lower limit stays until it is given.
  void set_limit(std::size_t limit) { limit_ = limit; }
  /// For so many bytes, in blocks none of which is larger than `block`.
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

  /// A block of so many bytes was not to be had, trim() or not.
  void note_fragmented(std::size_t block) { smallest_refused_ = std::min(smallest_refused_, block); }

  /// Memory that was not there before is about to be taken.
  void grow_resident(std::size_t bytes) {
    if (resident_ + bytes > limit_) trim();
    resident_ += bytes;
  }
  void shrink_resident(std::size_t bytes) { resident_ -= bytes; }
  std::size_t resident() const { return resident_; }

  /// All stores give the memory of their free blocks back.
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
  std::size_t smallest_refused_ = kNone;  // since something was given last
  std::vector<std::pair<const void*, Trim>> trims_;
};

}  // namespace reprise::gpu
