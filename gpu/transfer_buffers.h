#pragma once
// Memory of the host for states on their way to a device, of a kind that the device copies fast from: pinned, for a GPU
// (models/transfer_memory.h). Making such memory takes long, so what comes back is kept for the next.
//
// Bound: `most_bytes`, lent and kept together. Beyond it, or where there is no such memory, it is the heap's: slower, and
// bounded by whoever counts what is on its way.
// Threading: any thread. A buffer may outlive it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "gpu/block_memory.h"

namespace reprise::gpu {

class TransferBuffers {
 public:
  /// A block of that size with what gives it back; null: there is none. Called by one thread at a time.
  using Make = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
  static constexpr std::size_t kStep =
      16 << 20;  // sizes are multiples of it, so that they fit more than one state

  TransferBuffers(Make make, std::uint64_t most_bytes);

  /// Uninitialised. Throws std::bad_alloc.
  HostBytes take(std::size_t bytes);
  /// One that take() would give for so many bytes is made now, unless it is there.
  void prepare(std::size_t bytes);

  /// Made by `make`, lent or kept.
  std::uint64_t made_bytes() const;

 private:
  struct Shelf;
  const std::shared_ptr<Shelf> shelf_;
};

/// From `buffers`, or from the heap where there are none. Throws std::bad_alloc.
HostBytes take_transfer(TransferBuffers* buffers, std::size_t bytes);

}  // namespace reprise::gpu
