#include "gpu/block_pool.h"

#include <utility>

#include "base/check.h"
#include "traces/trace.h"

namespace reprise::gpu {
namespace {

constexpr const char* kTraced = "state of sequences and snapshots";

}  // namespace

BlockPool::BlockPool(std::size_t block_bytes, std::size_t most_blocks, BlockMemory& memory)
    : block_bytes_(block_bytes), most_(most_blocks), memory_(memory) {
  chunks_.reserve(most_ / kChunk + 1);
}

BlockPool::~BlockPool() {
  for (BlockId block = 0; block < references_.size(); ++block) {
    if (std::byte* address = data(block)) give(address);
  }
}

void BlockPool::give(std::byte* address) {
  traces::freed(kTraced, address);
  memory_.give(address, block_bytes_);
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
  if (address != nullptr) traces::allocated(kTraced, address, block_bytes_);
  if (cold_.empty()) {
    const auto block = static_cast<BlockId>(references_.size());
    if (block % kChunk == 0) chunks_.push_back(std::make_unique<std::byte*[]>(kChunk));
    address_of(block) = address;
    references_.push_back(1);
    return block;
  }
  const BlockId block = cold_.back();
  cold_.pop_back();
  references_[block] = 1;
  address_of(block) = address;
  return block;
}

bool BlockPool::release(BlockId block) {
  REPRISE_CHECK(block < references_.size() && references_[block] > 0,
                "a block was released more often than it was taken");
  if (--references_[block] > 0) return false;
  free_.push_back(block);
  return true;
}

std::size_t BlockPool::give_back() {
  const std::size_t bytes = free_.size() * block_bytes_;
  for (const BlockId block : free_) {
    if (std::byte* address = std::exchange(address_of(block), nullptr)) give(address);
    cold_.push_back(block);
  }
  free_.clear();
  return bytes;
}

}  // namespace reprise::gpu
