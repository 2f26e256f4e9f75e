#pragma once
// One allocation of GPU memory, taken at start and carved by gpu/arena_map.h: no allocation of CUDA's, which
// waits for the device, happens while a model runs.
//
// The arena must outlive what it gave, and be given back nothing that the GPU still works on.
// Threading: one thread, the device worker's.

#include <cstddef>

#include "gpu/arena_map.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

class Arena {
 public:
  static constexpr std::size_t kAlignment = ArenaMap::kAlignment;

  /// On the current GPU, uninitialised. Throws std::bad_alloc.
  explicit Arena(std::size_t size) : memory_(size), map_(size) {}

  /// From the lowest address, for what lasts or is small: weights, pages. Null if no part is large enough.
  std::byte* take_low(std::size_t bytes) { return address(map_.take_low(bytes)); }
  /// From the highest, for slots.
  std::byte* take_high(std::size_t bytes) { return address(map_.take_high(bytes)); }
  /// With the size it was taken with.
  void give(std::byte* block, std::size_t bytes) {
    map_.give(static_cast<std::size_t>(block - memory_.data()), bytes);
  }

  std::size_t size() const { return map_.size(); }
  std::size_t used() const { return map_.used(); }
  std::size_t largest_free() const { return map_.largest_free(); }

 private:
  std::byte* address(std::optional<std::size_t> offset) const {
    return offset ? memory_.data() + *offset : nullptr;
  }

  DeviceBytes memory_;
  ArenaMap map_;
};

}  // namespace reprise::gpu::cuda
