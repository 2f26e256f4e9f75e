#pragma once
// States between a store and the host's memory, as bytes: pages in their order, then the slot. What tiers below the
// device keep.
//
// Threading: as the store (gpu/state_store.h).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpu/state_store.h"

namespace reprise::gpu {

/// Bytes of a whole state of that many tokens.
std::size_t transfer_bytes(const StateSizes& sizes, std::size_t stored);

/// Pages [first, first + count) of a snapshot, then its slot where that is wanted, into as many bytes.
void read_snapshot(const StateStore& store, const Snapshot& snapshot, std::size_t first, std::size_t count,
                   bool slot, std::span<std::byte> to);

/// A sequence of transfer_bytes() bytes from elsewhere, which `owner` keeps. Nothing if there is no room.
std::optional<Sequence> load_sequence(StateStore& store, std::span<const std::byte> bytes,
                                      const std::shared_ptr<const void>& owner, std::size_t stored,
                                      std::size_t logical);

}  // namespace reprise::gpu
