#pragma once
// Pooled memory for short-lived objects: message nodes and coroutine frames.
//
// Each thread has free lists by size class (multiples of 64 bytes up to kMaxPooled), so most allocations
// need no lock and no atomic. A thread that frees more than it allocates moves batches of half a list to a
// central store, from which other threads refill.
//
// Bounds: at most kKeptPerClass blocks per thread and class, and kCentralBatches batches per class in the
// central store; further blocks return to the system allocator. Threading: any thread, also during
// destruction of thread-local and static objects. Under AddressSanitizer the pool is bypassed, to detect use
// after free.

#include <cstddef>

namespace reprise::runtime {

inline constexpr std::size_t kPoolGranule = 64;
inline constexpr std::size_t kMaxPooled = 1024;

/// Returns memory aligned to at least max_align_t. Throws std::bad_alloc; never returns null.
void* pool_allocate(std::size_t size);

/// `size` must be the size passed to pool_allocate().
void pool_free(void* block, std::size_t size) noexcept;

struct Pooled {
  static void* operator new(std::size_t size) { return pool_allocate(size); }
  static void operator delete(void* block, std::size_t size) noexcept { pool_free(block, size); }
};

}  // namespace reprise::runtime
