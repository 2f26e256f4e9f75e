#include "gpu/state/arena_map.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace reprise::gpu {

ArenaMap::ArenaMap(std::size_t size) : size_(size / kAlignment * kAlignment) {
  if (size_ > 0) free_.emplace(0, size_);
}

std::optional<std::size_t> ArenaMap::take_low(std::size_t bytes) {
  if (bytes == 0 || bytes > size_) return std::nullopt;
  bytes = rounded(bytes);
  const auto found =
      std::find_if(free_.begin(), free_.end(), [bytes](const auto& part) { return part.second >= bytes; });
  if (found == free_.end()) return std::nullopt;
  const auto [offset, length] = *found;
  free_.erase(found);
  if (length > bytes) free_.emplace(offset + bytes, length - bytes);
  used_ += bytes;
  return offset;
}

std::optional<std::size_t> ArenaMap::take_high(std::size_t bytes) {
  if (bytes == 0 || bytes > size_) return std::nullopt;
  bytes = rounded(bytes);
  const auto found =
      std::find_if(free_.rbegin(), free_.rend(), [bytes](const auto& part) { return part.second >= bytes; });
  if (found == free_.rend()) return std::nullopt;
  const auto [offset, length] = *found;
  if (length > bytes) {
    free_[offset] = length - bytes;
  } else {
    free_.erase(offset);
  }
  used_ += bytes;
  return offset + length - bytes;
}

void ArenaMap::give(std::size_t offset, std::size_t bytes) {
  bytes = rounded(bytes);
  const auto after = free_.lower_bound(offset);
  const bool has_before = after != free_.begin();
  const auto before = has_before ? std::prev(after) : free_.end();
  REPRISE_CHECK(bytes > 0 && bytes <= used_ && offset % kAlignment == 0 && offset + bytes <= size_ &&
                    (after == free_.end() || offset + bytes <= after->first) &&
                    (!has_before || before->first + before->second <= offset),
                "arena bytes were freed that were not taken");
  used_ -= bytes;
  if (after != free_.end() && offset + bytes == after->first) {
    bytes += after->second;
    free_.erase(after);
  }
  if (has_before && before->first + before->second == offset) {
    before->second += bytes;
  } else {
    free_.emplace(offset, bytes);
  }
}

std::size_t ArenaMap::largest_free() const {
  std::size_t largest = 0;
  for (const auto& [offset, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

}  // namespace reprise::gpu
