#pragma once
// Memory for things that come and go all the time: message nodes and coroutine frames.
//
// Free lists by size class (multiples of 64 bytes up to kLargestPooled), one set a thread, so that the usual
// allocation takes no lock and no atomic. Blocks wander with the messages: a thread that frees more than it
// allocates hands batches of half its list to a central store, from which the others refill.
//
// Bounds: a thread keeps at most kKeptPerClass blocks a class; the central store keeps at most
// kCentralBatches batches a class, and what is over goes back to the system. Threading: any thread, also
// during the destruction of thread-local and static objects. Under AddressSanitizer the pool is bypassed, so
// that use after free is seen.

#include <cstddef>

namespace reprise::runtime {

inline constexpr std::size_t kPoolGranule = 64;
inline constexpr std::size_t kLargestPooled = 1024;

/// Aligned to max_align_t at least; never null (throws std::bad_alloc).
void* pool_allocate(std::size_t size);

/// `size` must be what was asked for.
void pool_free(void* block, std::size_t size) noexcept;

/// Base of types that live in the pool.
struct Pooled {
  static void* operator new(std::size_t size) { return pool_allocate(size); }
  static void operator delete(void* block, std::size_t size) noexcept { pool_free(block, size); }
};

}  // namespace reprise::runtime
