#pragma once
// First-fit allocator over offsets [0, size); it never touches the memory itself.
//
// Small, long-lived blocks come from the low end and large, short-lived ones from the high end, which keeps
// the free bytes contiguous between them. Adjacent free ranges are merged. Offsets are multiples of
// kAlignment; sizes are rounded up to it. Not thread-safe.

#include <cstddef>
#include <map>
#include <optional>

namespace reprise::gpu {

class ArenaMap {
 public:
  static constexpr std::size_t kAlignment = 512;

  /// Starts with `size` free bytes, rounded down to kAlignment.
  explicit ArenaMap(std::size_t size);

  /// Allocates at the lowest offset where `bytes` fit. Returns nullopt if they fit nowhere or `bytes` is 0.
  std::optional<std::size_t> take_low(std::size_t bytes);
  /// As take_low(), at the highest offset.
  std::optional<std::size_t> take_high(std::size_t bytes);
  /// Frees a whole allocation; `bytes` as it was taken.
  void give(std::size_t offset, std::size_t bytes);

  std::size_t size() const { return size_; }
  std::size_t used() const { return used_; }
  std::size_t largest_free() const;
  std::size_t fragments() const { return free_.size(); }

 private:
  static std::size_t rounded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  const std::size_t size_;
  std::size_t used_ = 0;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes; no two ranges are adjacent
};

}  // namespace reprise::gpu
