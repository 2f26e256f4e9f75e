#pragma once
// The memory of a GPU: the arena that is taken at start, blocks in it (gpu/block_memory.h), and copies by kernels.

#include <cstddef>
#include <span>
#include <vector>

#include "gpu/arena_map.h"
#include "gpu/block_memory.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

/// One allocation of GPU memory, taken at start and carved by gpu/arena_map.h: no allocation of CUDA's, which waits for the
/// device, happens while a model runs.
///
/// The arena must outlive what it gave, and be given back nothing that the GPU still works on.
/// Threading: one thread, the device worker's.
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

/// gpu/block_memory.h on a GPU: copies that look at what they copy, several of them in one launch.
///
/// The checksum is a wrapping sum over all 64-bit words of a mix of the word and its place: the order of the additions does
/// not matter, so it is the same for every number of multiprocessors; and one changed word always changes it. It is another
/// number than the host's.
///
/// Threading: launches into `stream`. A CheckedCopier serves one stream, and one launch at a time.
class CheckedCopier {
 public:
  static constexpr std::size_t kMostCopies = 8;      // of one launch
  static constexpr std::size_t kCopyAlignment = 16;  // of both ends of a copy

  /// For the current GPU.
  CheckedCopier();

  /// At most kMostCopies, of sizes that are multiples of 4; both ends are memory that the GPU reaches. A copy
  /// to null is only looked at.
  void launch(std::span<const BlockMemory::Copy> copies, StreamHandle stream);
  /// Of the copy of that index in the last launch, once the stream has been waited for.
  CopyFigures figures(std::size_t index) const;

 private:
  DeviceBytes totals_;   // zeros between launches
  PinnedBytes results_;  // the last block of a launch writes them
  std::size_t sizes_[kMostCopies] = {};
  unsigned most_blocks_ = 0;
};

/// gpu/block_memory.h on an arena.
///
/// Its work runs in a stream of its own, ahead of other work that waits, and every call waits for what it started. Kernels
/// of other streams that touched a block must be done before a call names it.
///
/// Threading: one thread at a time, with the arena's GPU current.
class DeviceMemory : public BlockMemory {
 public:
  /// Blocks of this size and above are taken from the high end: slots, and no pages.
  static constexpr std::size_t kLarge = 8 << 20;
  static constexpr std::size_t kMostSpare = 4;

  /// `arena` must outlive it.
  explicit DeviceMemory(Arena& arena, std::size_t large = kLarge) : arena_(arena), large_(large) {}

  /// Bytes that it has taken from the arena.
  std::size_t used() const { return used_; }

  using BlockMemory::from_host;
  using BlockMemory::to_host;

  std::byte* take(std::size_t bytes) override;
  /// Pinned. What has been given back is kept for the next, kMostSpare at most: making it takes long.
  HostBytes take_host(std::size_t bytes) override;
  void give(std::byte* block, std::size_t bytes) override;
  void fill(std::byte* to, int value, std::size_t bytes) override;
  void fill_all(std::span<std::byte* const> blocks, int value, std::size_t bytes) override;
  void copy(std::span<const Copy> copies, std::span<CopyFigures> figures) override;
  CopyFigures look_at(const std::byte* bytes, std::size_t size) override;
  void look_at_all(std::span<const std::byte* const> blocks, std::size_t size,
                   std::span<CopyFigures> figures) override;
  void to_host(std::span<const Copy> copies) override;
  void from_host(std::span<const Copy> copies) override;

 private:
  Arena& arena_;
  const std::size_t large_;
  std::size_t used_ = 0;
  std::vector<PinnedBytes> spare_;
  Stream stream_{Stream::Priority::kHigh};
  CheckedCopier copier_;
};

/// Up to so many bytes are small; more are copied sooner by the engine that copies.
inline constexpr std::size_t kMostSmallBytes = std::size_t{128} << 10;

/// Copies few bytes from the host to the GPU, read by a kernel instead of the engine that copies: kernels behind it begin
/// sooner, because they need not wait for another part of the GPU.
///
/// `from` is pinned memory of the host, which stays as it is until the stream has passed here. Both are aligned to 16 bytes,
/// and memory of whole sixteens; `bytes` is at most kMostSmallBytes.
void copy_small_to_device(std::byte* to, const std::byte* from, std::size_t bytes, StreamHandle stream);

}  // namespace reprise::gpu::cuda
