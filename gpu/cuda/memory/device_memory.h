#pragma once
// GPU memory: the arena allocated at start, the blocks in it (gpu/state/block_memory.h), and copies by
// kernels.

#include <cstddef>
#include <span>
#include <vector>

#include "gpu/cuda/memory/stream.h"
#include "gpu/state/arena_map.h"
#include "gpu/state/block_memory.h"

namespace reprise::gpu::cuda {

/// One GPU allocation made at start and divided by gpu/state/arena_map.h, because cudaMalloc synchronizes
/// with the device.
///
/// The arena must outlive its blocks, and a block must not be given back while the GPU uses it. Threading:
/// the device worker's thread.
class Arena {
 public:
  static constexpr std::size_t kAlignment = ArenaMap::kAlignment;

  /// Allocates uninitialized memory on the current GPU. Throws std::bad_alloc.
  explicit Arena(std::size_t size) : memory_(size), map_(size) {}

  /// Allocates from the lowest address, for long-lived or small blocks (weights, pages). Returns null if no
  /// free range is large enough.
  std::byte* take_low(std::size_t bytes) { return address(map_.take_low(bytes)); }
  /// Allocates from the highest address, for slots. Returns null as take_low() does.
  std::byte* take_high(std::size_t bytes) { return address(map_.take_high(bytes)); }
  /// Requires: `bytes` is the size passed to take_low() or take_high().
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

/// Copies blocks and computes their checksum and whether all their f32 are finite (gpu/state/block_memory.h),
/// several copies per launch.
///
/// The checksum is the wrapping sum over all 64-bit words of a mix of the word and its index. Integer
/// addition is associative, so the sum does not depend on the number of SMs; one changed word always changes
/// it. It differs from the host's checksum.
///
/// Threading: a CheckedCopier serves one stream, one launch at a time.
class CheckedCopier {
 public:
  static constexpr std::size_t kMaxCopies = 64;      // per launch
  static constexpr std::size_t kCopyAlignment = 16;  // bytes, of source and destination

  /// For the current GPU.
  CheckedCopier();

  /// Starts at most kMaxCopies copies between addresses that the GPU can access. Sizes are multiples of 4. A
  /// copy with a null destination is only examined.
  void launch(std::span<const BlockMemory::Copy> copies, StreamHandle stream);
  /// Returns the figures of copy `index` of the last launch. Requires: the stream has completed it.
  CopyFigures figures(std::size_t index) const;

 private:
  DeviceBytes totals_;   // all zero between launches
  PinnedBytes results_;  // written by the last block of a launch
  std::size_t sizes_[kMaxCopies] = {};
  unsigned max_blocks_ = 0;
};

/// gpu/state/block_memory.h on an arena.
///
/// Copies run in a high-priority stream of its own; each call blocks until its work is done. Kernels of other
/// streams that use a block must have completed before a call names it.
///
/// Threading: one thread at a time, with the arena's GPU current.
class DeviceMemory : public BlockMemory {
 public:
  /// Min size of blocks from the high end of the arena: slots, but no pages.
  static constexpr std::size_t kLarge = 8 << 20;
  static constexpr std::size_t kMaxSpare = 4;

  /// `arena` must outlive it.
  explicit DeviceMemory(Arena& arena, std::size_t large = kLarge) : arena_(arena), large_(large) {}

  std::size_t used() const { return used_; }

  using BlockMemory::from_host;
  using BlockMemory::to_host;

  std::byte* take(std::size_t bytes) override;
  /// Pinned; up to kMaxSpare returned buffers are kept for reuse, because pinning takes long.
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

/// Above, cudaMemcpyAsync is faster than copy_small_to_device().
inline constexpr std::size_t kMaxSmallBytes = std::size_t{128} << 10;

/// Copies from pinned host memory with a kernel instead of cudaMemcpyAsync, so that later kernels need not
/// wait for the copy engine.
///
/// Requires: `from` is unchanged until the stream has passed this point; both addresses are aligned to 16
/// bytes, and both buffers extend to a multiple of 16 bytes; bytes <= kMaxSmallBytes.
void copy_small_to_device(std::byte* to, const std::byte* from, std::size_t bytes, StreamHandle stream);

}  // namespace reprise::gpu::cuda
