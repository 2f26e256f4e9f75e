#pragma once
// Changes stored states for tests: damage that checksums must find, damage that they cannot find, and NaN.

#include <span>

#include "gpu/state/state_store.h"

namespace reprise::gpu {

/// Flips a bit of byte `at` of the serialized snapshot (pages in order, then the slot), so that restore()
/// reports damage.
inline void damage(const StateStore& store, const Snapshot& snapshot, std::size_t at) {
  const StateSizes& sizes = store.sizes();
  const std::size_t pages = snapshot.pages().size() * sizes.page_bytes;
  std::byte* const to =
      at < pages ? store.pages().data(snapshot.pages()[at / sizes.page_bytes]) + at % sizes.page_bytes
                 : store.slots().data(snapshot.slot()) + (at - pages);
  std::byte one{};
  store.memory().to_host(&one, to, 1);
  one ^= std::byte{1};
  store.memory().from_host(to, &one, 1);
}

/// Damages the last byte, if the snapshot has any.
inline void damage(const StateStore& store, const Snapshot& snapshot) {
  const std::size_t bytes = transfer_bytes(store.sizes(), snapshot.stored());
  if (bytes != 0) damage(store, snapshot, bytes - 1);
}

/// Zeroes the slot and updates its checksum, so that restore() does not notice.
inline void damage_unseen(StateStore& store, Snapshot& snapshot) {
  if (store.sizes().slot_bytes == 0) return;
  store.memory().fill(snapshot.slot_data(), 0, store.sizes().slot_bytes);
  Snapshot* const again = &snapshot;
  store.end_captures({&again, 1});
}

/// Fills a sequence's slot and first page with NaN (as f32 or bf16).
inline void poison(const StateStore& store, const Sequence& sequence) {
  constexpr int kNan = 0xff;
  const StateSizes& sizes = store.sizes();
  if (sizes.slot_bytes != 0) store.memory().fill(sequence.slot_data(), kNan, sizes.slot_bytes);
  if (sizes.page_bytes != 0 && !sequence.pages().empty()) {
    store.memory().fill(sequence.page_data(0), kNan, sizes.page_bytes);
  }
}

}  // namespace reprise::gpu
