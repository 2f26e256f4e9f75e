#pragma once
// Blocks in the memory of a GPU: gpu/block_memory.h on an arena.
//
// Its work runs in a stream of its own, ahead of other work that waits, and every call waits for what it
// started. Kernels of other streams that touched a block must be done before a call names it.
//
// Threading: one thread at a time, with the arena's GPU current.

#include <vector>

#include "gpu/block_memory.h"
#include "gpu/cuda/arena.h"
#include "gpu/cuda/checked_copy.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

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

}  // namespace reprise::gpu::cuda
