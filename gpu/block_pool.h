#pragma once
// Equal blocks of memory by number: what pages and slots are made of.
//
// The address space for all blocks is reserved at once; the system gives memory when a block is first
// touched. A free block keeps its memory for the next user, until give_back() returns it to the system.
//
// Threading: one thread (the device worker's). Addresses of live blocks may be read by others.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::gpu {

using BlockId = std::uint32_t;

class BlockPool {
 public:
  /// `block_bytes` may be 0: then blocks are mere numbers. Throws std::bad_alloc if the space cannot be
  /// reserved.
  BlockPool(std::size_t block_bytes, std::size_t most_blocks);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// With one reference; its bytes are left over from earlier use. Nothing if all are taken.
  std::optional<BlockId> take();
  /// Whether the next block taken has its memory already.
  bool next_is_resident() const { return !free_.empty(); }
  /// The memory of all free blocks; returns how many bytes that was.
  std::size_t give_back();
  void add_ref(BlockId block) { ++references_[block]; }
  /// Returns whether that was the last reference.
  bool release(BlockId block);
  std::uint32_t references(BlockId block) const { return references_[block]; }

  std::byte* data(BlockId block) const { return memory_ + static_cast<std::size_t>(block) * stride_; }
  std::size_t block_bytes() const { return block_bytes_; }
  std::size_t used() const { return references_.size() - free_.size() - cold_.size(); }
  std::size_t resident_bytes() const { return (references_.size() - cold_.size()) * block_bytes_; }
  std::size_t most() const { return most_; }

 private:
  const std::size_t block_bytes_;
  const std::size_t stride_;  // rounded up to cache lines
  const std::size_t most_;
  std::byte* memory_ = nullptr;
  std::vector<std::uint32_t> references_;  // of blocks that were ever taken
  std::vector<BlockId> free_;              // with their memory
  std::vector<BlockId> cold_;              // without
};

}  // namespace reprise::gpu
