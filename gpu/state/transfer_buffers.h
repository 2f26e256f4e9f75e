#pragma once
// A pool of host memory for states in transit between a device and the tiers below it, of the kind that the
// device copies fastest: pinned for a GPU (models/device.h). Allocating it takes longer than a restore
// should, so only prepare() allocates, ahead of use, and take() lends parts of it.
//
// Bound: at most `max_bytes`. When the pool cannot serve a request, take() uses the heap, which is slower to
// copy and not counted here; the caller bounds the bytes in transit. Threading: thread-safe; take() never
// waits for an allocation by prepare(). Buffers may outlive the pool.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "gpu/state/block_memory.h"

namespace reprise::gpu {

class TransferBuffers {
 public:
  /// Allocates a block whose deleter frees it; returns null on failure. Called by one thread at a time.
  using Make = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
  static constexpr std::size_t kStep = 16 << 20;     // granularity of block sizes
  static constexpr std::size_t kFirst = 1ULL << 30;  // holds several states of most models

  TransferBuffers(Make make, std::uint64_t max_bytes);

  /// Returns uninitialized memory, from the pool or the heap. Throws std::bad_alloc.
  HostBytes take(std::size_t bytes);
  /// Allocates a block from which take() can lend `bytes` at once, unless there is one of that size. Frees
  /// unlent blocks if the bound requires it. Does nothing after a failed allocation, or if the lent blocks
  /// leave no space.
  void prepare(std::size_t bytes = kFirst);

  /// The bytes allocated by `make`, lent or not.
  std::uint64_t made_bytes() const;

 private:
  struct Shelf;
  const std::shared_ptr<Shelf> shelf_;
};

/// Takes from `buffers`, or from the heap if it is null. Throws std::bad_alloc.
HostBytes take_transfer(TransferBuffers* buffers, std::size_t bytes);

}  // namespace reprise::gpu
