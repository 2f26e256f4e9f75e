#pragma once
// Blocks in the memory of this process.
//
// Large blocks are mapped one by one, so that the system gives memory when they are first touched and has it
// back at give(); small ones come from the heap.
//
// Threading: any thread.

#include "gpu/block_memory.h"

namespace reprise::gpu {

class HostMemory : public BlockMemory {
 public:
  static constexpr std::size_t kMapped = 64 << 10;  // bytes from which a block is a mapping of its own

  using BlockMemory::from_host;
  using BlockMemory::to_host;

  std::byte* take(std::size_t bytes) override;
  bool gives_zeros(std::size_t bytes) const override { return bytes >= kMapped; }
  void give(std::byte* block, std::size_t bytes) override;
  void fill(std::byte* to, int value, std::size_t bytes) override;
  void copy(std::span<const Copy> copies, std::span<CopyFigures> figures) override;
  CopyFigures look_at(const std::byte* bytes, std::size_t size) override;
  void to_host(std::span<const Copy> copies) override;
  void from_host(std::span<const Copy> copies) override;
};

/// The process's, for stores that name no other.
BlockMemory& host_memory();

}  // namespace reprise::gpu
