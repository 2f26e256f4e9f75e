#pragma once
// Device memory filled with NaN until written, and again after it was freed, so that reading uninitialized
// memory shows in the results.

#include <cstring>

#include "gpu/state/block_memory.h"

namespace reprise::actors {

class PoisonedMemory : public gpu::BlockMemory {
 public:
  std::byte* take(std::size_t bytes) override {
    std::byte* block = gpu::host_memory().take(bytes);
    if (block != nullptr) std::memset(block, 0xff, bytes);
    return block;
  }
  void give(std::byte* block, std::size_t bytes) override {
    std::memset(block, 0xff, bytes);
    gpu::host_memory().give(block, bytes);
  }
  void fill(std::byte* to, int value, std::size_t bytes) override {
    gpu::host_memory().fill(to, value, bytes);
  }
  void copy(std::span<const Copy> copies, std::span<gpu::CopyFigures> figures) override {
    gpu::host_memory().copy(copies, figures);
  }
  gpu::CopyFigures look_at(const std::byte* bytes, std::size_t size) override {
    return gpu::host_memory().look_at(bytes, size);
  }
  void to_host(std::span<const Copy> copies) override { gpu::host_memory().to_host(copies); }
  void from_host(std::span<const Copy> copies) override { gpu::host_memory().from_host(copies); }
};

}  // namespace reprise::actors
