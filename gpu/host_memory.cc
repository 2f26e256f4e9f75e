#include "gpu/host_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "base/check.h"

namespace reprise::gpu {
namespace {

constexpr std::align_val_t kAligned{BlockMemory::kAlignment};

void copy_all(std::span<const BlockMemory::Copy> copies) {
  for (const BlockMemory::Copy& copy : copies) {
    if (copy.bytes != 0) std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

}  // namespace

std::byte* HostMemory::take(std::size_t bytes) {
  if (bytes < kMapped) return static_cast<std::byte*>(::operator new(bytes, kAligned, std::nothrow));
  void* block =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return block == MAP_FAILED ? nullptr : static_cast<std::byte*>(block);
}

void HostMemory::give(std::byte* block, std::size_t bytes) {
  if (bytes < kMapped) {
    ::operator delete(block, kAligned);
  } else {
    REPRISE_CHECK(munmap(block, bytes) == 0, "munmap failed: the block was not mapped");
  }
}

void HostMemory::fill(std::byte* to, int value, std::size_t bytes) {
  if (bytes != 0) std::memset(to, value, bytes);
}

void HostMemory::copy(std::span<const Copy> copies, std::span<CopyFigures> figures) {
  for (std::size_t i = 0; i < copies.size(); ++i) {
    figures[i] = checked_copy(copies[i].to, copies[i].from, copies[i].bytes);
  }
}

CopyFigures HostMemory::look_at(const std::byte* bytes, std::size_t size) {
  return gpu::look_at(bytes, size);
}

void HostMemory::to_host(std::span<const Copy> copies) {
  copy_all(copies);
}

void HostMemory::from_host(std::span<const Copy> copies) {
  copy_all(copies);
}

BlockMemory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace reprise::gpu
