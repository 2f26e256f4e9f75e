#pragma once
// Memory of the host for states between a device and the tiers below it, of a kind that the device copies fast with:
// pinned, for a GPU (models/device.h). Making such memory takes longer than a restore should, so it is made
// ahead, by prepare() alone, and lent in parts.
//
// Bound: `most_bytes`. What is not there when it is wanted is the heap's: slower, and bounded by whoever counts what is
// on its way.
// Threading: any thread; take() never waits for what is being made. A buffer may outlive it.

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
  static constexpr std::size_t kStep = 16 << 20;     // blocks are multiples of it, but for the bound
  static constexpr std::size_t kFirst = 1ULL << 30;  // for states of most sizes, several at once

  TransferBuffers(Make make, std::uint64_t most_bytes);

  /// Uninitialised. Throws std::bad_alloc.
  HostBytes take(std::size_t bytes);
  /// So that take() can lend so many bytes at once: makes a block unless one of that size is there. What is not lent
  /// goes for it where the bound wants that.
  void prepare(std::size_t bytes = kFirst);

  /// Made by `make`, lent or not.
  std::uint64_t made_bytes() const;

 private:
  struct Shelf;
  const std::shared_ptr<Shelf> shelf_;
};

/// From `buffers`, or from the heap where there are none. Throws std::bad_alloc.
HostBytes take_transfer(TransferBuffers* buffers, std::size_t bytes);

}  // namespace reprise::gpu
