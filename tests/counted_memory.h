#pragma once
// Replaces the allocator of a test program by one that counts. Include it in one source of the program: it defines the
// global operators.
//
// Threading: any thread.

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace reprise::counted_memory {

inline std::atomic<std::uint64_t> allocations{0};  // so far
inline std::atomic<std::int64_t> bytes{0};         // held now, with the allocator's own word for each
inline std::atomic<std::int64_t> max_bytes{0};     // held at once, since it was last set

inline std::int64_t weight_of(void* memory) {
  return static_cast<std::int64_t>(malloc_usable_size(memory)) + 8;
}

// Kept out of line: the compiler should not pair what is inside with the operators around it.
[[gnu::noinline]] inline void* take(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  allocations.fetch_add(1, std::memory_order_relaxed);
  const std::int64_t weight = weight_of(memory);
  const std::int64_t now = bytes.fetch_add(weight, std::memory_order_relaxed) + weight;
  if (now > max_bytes.load(std::memory_order_relaxed)) max_bytes.store(now, std::memory_order_relaxed);
  return memory;
}
[[gnu::noinline]] inline void give_back(void* memory) {
  if (memory == nullptr) return;
  bytes.fetch_sub(weight_of(memory), std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace reprise::counted_memory

#ifndef REPRISE_SANITIZED  // sanitizers have an allocator of their own: nothing is counted under them
void* operator new(std::size_t size) {
  return reprise::counted_memory::take(size);
}
void operator delete(void* memory) noexcept {
  reprise::counted_memory::give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  reprise::counted_memory::give_back(memory);
}
#endif
