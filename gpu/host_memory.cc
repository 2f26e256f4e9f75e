#include "gpu/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>

#include "base/check.h"

namespace reprise::gpu {
namespace {

constexpr std::align_val_t kAligned{BlockMemory::kAlignment};
constexpr std::size_t kBigPage = 2 << 20;

/// A mapping of so many bytes; nothing if there is no memory for it.
std::byte* map(std::size_t bytes) {
  void* block =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return block == MAP_FAILED ? nullptr : static_cast<std::byte*>(block);
}

void unmap(std::byte* block, std::size_t bytes) {
  REPRISE_CHECK(munmap(block, bytes) == 0, "a block was given back that was never taken");
}

/// A mapping that begins where a big page may, and asks for such: a first touch every 2 MiB instead of every 4 KiB, where the
/// system has them to give.
std::byte* map_big(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t wanted = (bytes + page - 1) / page * page;
  std::byte* const all = map(wanted + kBigPage);
  if (all == nullptr) return nullptr;
  const std::size_t before = (kBigPage - reinterpret_cast<std::uintptr_t>(all) % kBigPage) % kBigPage;
  if (before != 0) unmap(all, before);
  unmap(all + before + wanted, kBigPage - before);
  madvise(all + before, wanted, MADV_HUGEPAGE);  // a wish
  return all + before;
}

void copy_all(std::span<const BlockMemory::Copy> copies) {
  for (const BlockMemory::Copy& copy : copies) {
    if (copy.bytes != 0) std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

}  // namespace

std::byte* HostMemory::take(std::size_t bytes) {
  if (bytes < kMapped) return static_cast<std::byte*>(::operator new(bytes, kAligned, std::nothrow));
  return bytes < kBigPage ? map(bytes) : map_big(bytes);
}

void HostMemory::give(std::byte* block, std::size_t bytes) {
  if (bytes < kMapped) {
    ::operator delete(block, kAligned);
  } else {
    unmap(block, bytes);
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
