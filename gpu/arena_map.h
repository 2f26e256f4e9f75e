#pragma once
// Which parts of one range of bytes are taken. It knows offsets alone; the memory is somebody else's.
//
// Small and lasting blocks are taken from the low end, large ones that come and go from the high end, so that
// the free bytes stay together between the two. Neighbouring free parts are one part.
//
// Offsets and sizes are multiples of kAlignment: sizes are rounded up.
// Threading: one thread.

#include <cstddef>
#include <map>
#include <optional>

namespace reprise::gpu {

class ArenaMap {
 public:
  static constexpr std::size_t kAlignment = 512;

  /// Of `size` bytes, rounded down; all of them free.
  explicit ArenaMap(std::size_t size);

  /// The lowest offset where so many bytes are free. Nothing if there is none, or for 0 bytes.
  std::optional<std::size_t> take_low(std::size_t bytes);
  /// The highest.
  std::optional<std::size_t> take_high(std::size_t bytes);
  /// All of what was taken there, in one piece.
  void give(std::size_t offset, std::size_t bytes);

  std::size_t size() const { return size_; }
  std::size_t used() const { return used_; }
  std::size_t largest_free() const;
  /// Parts that the free bytes lie in.
  std::size_t fragments() const { return free_.size(); }

 private:
  static std::size_t rounded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  const std::size_t size_;
  std::size_t used_ = 0;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes; no two of them touch
};

}  // namespace reprise::gpu
