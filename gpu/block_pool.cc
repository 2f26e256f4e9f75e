#include "gpu/block_pool.h"

#include "traces/check.h"

namespace reprise::gpu {

BlockPool::BlockPool(std::size_t block_bytes, std::size_t most_blocks, BlockMemory& memory)
    : block_bytes_(block_bytes), most_(most_blocks), memory_(memory) {}

BlockPool::~BlockPool() {
  for (std::byte* address : addresses_) {
    if (address != nullptr) memory_.give(address, block_bytes_);
  }
}

std::optional<BlockId> BlockPool::take() {
  if (!free_.empty()) {
    const BlockId block = free_.back();
    free_.pop_back();
    references_[block] = 1;
    return block;
  }
  if (is_full()) return std::nullopt;
  std::byte* address = block_bytes_ == 0 ? nullptr : memory_.take(block_bytes_);
  if (address == nullptr && block_bytes_ != 0) return std::nullopt;
  if (cold_.empty()) {
    references_.push_back(1);
    addresses_.push_back(address);
    return static_cast<BlockId>(references_.size() - 1);
  }
  const BlockId block = cold_.back();
  cold_.pop_back();
  references_[block] = 1;
  addresses_[block] = address;
  return block;
}

bool BlockPool::release(BlockId block) {
  REPRISE_CHECK(block < references_.size() && references_[block] > 0,
                "a block was released that nobody holds");
  if (--references_[block] > 0) return false;
  free_.push_back(block);
  return true;
}

std::size_t BlockPool::give_back() {
  const std::size_t bytes = free_.size() * block_bytes_;
  for (const BlockId block : free_) {
    if (addresses_[block] != nullptr) memory_.give(addresses_[block], block_bytes_);
    addresses_[block] = nullptr;
    cold_.push_back(block);
  }
  free_.clear();
  return bytes;
}

}  // namespace reprise::gpu
