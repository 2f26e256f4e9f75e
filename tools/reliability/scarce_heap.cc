#include "tools/reliability/scarce_heap.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace reprise::tools::scarce_heap {
namespace {

// Relaxed: they order no other memory.
std::atomic<std::uint32_t> one_in{0};
std::atomic<std::uint64_t> draws{1};
std::atomic<std::uint64_t> refused{0};

bool refuses(std::size_t bytes) noexcept {
  if (bytes <= kLarge) return false;
  const std::uint32_t count = one_in.load(std::memory_order_relaxed);
  if (count == 0) return false;
  // A Weyl sequence with the finalizer of SplitMix64.
  std::uint64_t draw = draws.fetch_add(0x9e3779b97f4a7c15ULL, std::memory_order_relaxed);
  draw = (draw ^ (draw >> 30)) * 0xbf58476d1ce4e5b9ULL;
  draw = (draw ^ (draw >> 27)) * 0x94d049bb133111ebULL;
  if ((draw ^ (draw >> 31)) % count != 0) return false;
  refused.fetch_add(1, std::memory_order_relaxed);
  return true;
}

/// Returns null if there is no memory. `alignment`: 0 for that of malloc().
void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (refuses(bytes)) return nullptr;
  bytes = std::max<std::size_t>(bytes, 1);
  if (alignment == 0) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* const memory = allocate(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void refuse_one_in(std::uint32_t count, std::uint64_t seed) {
  draws.store(seed, std::memory_order_relaxed);
  one_in.store(count, std::memory_order_relaxed);
}

std::uint64_t refusals() {
  return refused.load(std::memory_order_relaxed);
}

}  // namespace reprise::tools::scarce_heap

// The forms for arrays and those without an exception call these (libstdc++). GCC warns of a free() in its own
// operator delete once both are inlined.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t bytes) {
  return reprise::tools::scarce_heap::allocate_or_throw(bytes, 0);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return reprise::tools::scarce_heap::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
