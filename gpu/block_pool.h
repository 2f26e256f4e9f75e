#pragma once
// Equal blocks of memory by number: what pages and slots are made of.
//
// A block has its memory from the first time it is taken. A free block keeps it for the next user, until
// give_back() returns it to where it came from.
//
// Threading: one thread (the device worker's). Addresses of live blocks may be read by others.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/block_memory.h"

namespace reprise::gpu {

using BlockId = std::uint32_t;

class BlockPool {
 public:
  /// `block_bytes` may be 0: then blocks are mere numbers. `memory` must outlive the pool.
  BlockPool(std::size_t block_bytes, std::size_t most_blocks, BlockMemory& memory);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// With one reference; its bytes are left over from earlier use. Nothing if is_full(), or if there is no
  /// memory for it.
  std::optional<BlockId> take();
  /// All are taken.
  bool is_full() const { return used() == most_; }
  /// Whether the next block taken has its memory already.
  bool next_is_resident() const { return !free_.empty(); }
  /// The memory of all free blocks; returns how many bytes that was.
  std::size_t give_back();
  void add_ref(BlockId block) { ++references_[block]; }
  /// Returns whether that was the last reference.
  bool release(BlockId block);
  std::uint32_t references(BlockId block) const { return references_[block]; }

  /// Null for blocks of no bytes.
  std::byte* data(BlockId block) const { return chunks_[block / kChunk][block % kChunk]; }
  std::size_t block_bytes() const { return block_bytes_; }
  std::size_t used() const { return references_.size() - free_.size() - cold_.size(); }
  std::size_t resident_bytes() const { return (references_.size() - cold_.size()) * block_bytes_; }
  std::size_t most() const { return most_; }

 private:
  void give(std::byte* address);
  std::byte*& address_of(BlockId block) { return chunks_[block / kChunk][block % kChunk]; }

  const std::size_t block_bytes_;
  const std::size_t most_;
  BlockMemory& memory_;
  // Of blocks that were ever taken.
  std::vector<std::uint32_t> references_;
  // Addresses by block. A chunk stays where it is, and so does their table.
  static constexpr std::size_t kChunk = 1024;
  std::vector<std::unique_ptr<std::byte*[]>> chunks_;
  std::vector<BlockId> free_;  // with their memory
  std::vector<BlockId> cold_;  // without
};

}  // namespace reprise::gpu
