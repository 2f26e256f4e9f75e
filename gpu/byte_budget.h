#pragma once
// The bytes that all state stores of a device share.
//
// `used` counts blocks that somebody holds; a store takes bytes before it takes a block, so the limit is
// never passed. `resident` counts memory that the system has given, free blocks included; before it would
// pass the limit, the stores give free blocks back.
//
// Threading: one thread, the device worker's.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace reprise::gpu {

class ByteBudget {
 public:
  using Trim = std::function<std::size_t()>;  // gives free blocks back to the system; how many bytes

  explicit ByteBudget(std::size_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_; }
  std::size_t free() const { return limit_ - used_; }

  [[nodiscard]] bool take(std::size_t bytes) {
    if (bytes > free()) return false;
    used_ += bytes;
    return true;
  }
  void give(std::size_t bytes) { used_ -= bytes; }

  /// Memory that was not there before is about to be touched.
  void grow_resident(std::size_t bytes) {
    if (resident_ + bytes > limit_) {
      for (const auto& [owner, trim] : trims_) resident_ -= trim();
    }
    resident_ += bytes;
  }
  void shrink_resident(std::size_t bytes) { resident_ -= bytes; }
  std::size_t resident() const { return resident_; }

  void add_trim(const void* owner, Trim trim) { trims_.emplace_back(owner, std::move(trim)); }
  void remove_trim(const void* owner) {
    std::erase_if(trims_, [owner](const auto& entry) { return entry.first == owner; });
  }

 private:
  const std::size_t limit_;
  std::size_t used_ = 0;
  std::size_t resident_ = 0;
  std::vector<std::pair<const void*, Trim>> trims_;
};

}  // namespace reprise::gpu
