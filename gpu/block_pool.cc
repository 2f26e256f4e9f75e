#include "gpu/block_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#include "traces/check.h"

namespace reprise::gpu {

BlockPool::BlockPool(std::size_t block_bytes, std::size_t most_blocks)
    : block_bytes_(block_bytes), stride_((block_bytes + 63) / 64 * 64), most_(most_blocks) {
  if (stride_ == 0 || most_ == 0) return;
  void* memory = mmap(nullptr, stride_ * most_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
}

BlockPool::~BlockPool() {
  if (memory_ != nullptr) munmap(memory_, stride_ * most_);
}

std::optional<BlockId> BlockPool::take() {
  for (std::vector<BlockId>* list : {&free_, &cold_}) {
    if (list->empty()) continue;
    const BlockId block = list->back();
    list->pop_back();
    references_[block] = 1;
    return block;
  }
  if (references_.size() == most_) return std::nullopt;
  references_.push_back(1);
  return static_cast<BlockId>(references_.size() - 1);
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
    // Whole memory pages inside the block; its edges may be a neighbour's.
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<std::uintptr_t>(data(block)) + page - 1) / page * page;
    const auto end = (reinterpret_cast<std::uintptr_t>(data(block)) + stride_) / page * page;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    cold_.push_back(block);
  }
  free_.clear();
  return bytes;
}

}  // namespace reprise::gpu
