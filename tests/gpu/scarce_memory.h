#pragma once
// Host memory that refuses blocks before any budget is spent, as memory in fragments does.
//
// Threading: any thread.

#include <atomic>

#include "gpu/host_memory.h"

namespace reprise::gpu {

class ScarceMemory : public HostMemory {
 public:
  explicit ScarceMemory(std::size_t limit) : limit_(limit) {}

  std::byte* take(std::size_t bytes) override {
    if (used_ + bytes > limit_) {
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

  std::size_t used() const { return used_; }
  std::size_t refusals() const { return refusals_; }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_ = 0;
  std::atomic<std::size_t> refusals_ = 0;
};

}  // namespace reprise::gpu
