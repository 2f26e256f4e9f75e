#pragma once
// Host memory for tests and tools/chaos that refuses blocks at random or above a limit, as fragmented memory
// does before the byte budget is spent. Thread-safe.

#include <atomic>
#include <cstdint>
#include <limits>

#include "gpu/state/block_memory.h"

namespace reprise::gpu {

class ScarceMemory : public HostMemory {
 public:
  explicit ScarceMemory(std::size_t limit = std::numeric_limits<std::size_t>::max()) : limit_(limit) {}

  std::byte* take(std::size_t bytes) override {
    if (used_ + bytes > limit_ || unlucky()) {
      ++refusals_;
      return nullptr;
    }
    used_ += bytes;
    return HostMemory::take(bytes);
  }
  void give(std::byte* block, std::size_t bytes) override {
    used_ -= bytes;
    HostMemory::give(block, bytes);
  }

  /// From this call on, refuses each block with probability 1/count; 0: never.
  void refuse_one_in(std::uint32_t count) { one_in_ = count; }

  std::size_t used() const { return used_; }
  std::size_t refusals() const { return refusals_; }

 private:
  bool unlucky() {
    const std::uint32_t one_in = one_in_;
    if (one_in == 0) return false;
    // A Weyl sequence with a multiplicative hash: the high half is random enough.
    const std::uint64_t draw = draws_.fetch_add(0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    return (draw >> 32) % one_in == 0;
  }

  const std::size_t limit_;
  std::atomic<std::size_t> used_ = 0;
  std::atomic<std::size_t> refusals_ = 0;
  std::atomic<std::uint32_t> one_in_ = 0;
  std::atomic<std::uint64_t> draws_ = 1;
};

}  // namespace reprise::gpu
