#include "gpu/state_transfer.h"

#include "base/check.h"

namespace reprise::gpu {

std::size_t transfer_bytes(const StateSizes& sizes, std::size_t stored) {
  return (stored + kPageTokens - 1) / kPageTokens * sizes.page_bytes + sizes.slot_bytes;
}

void read_snapshot(const StateStore& store, const Snapshot& snapshot, std::size_t first, std::size_t count,
                   bool slot, std::span<std::byte> to) {
  const StateSizes& sizes = store.sizes();
  REPRISE_CHECK(first + count <= snapshot.pages().size() &&
                    to.size() == count * sizes.page_bytes + (slot ? sizes.slot_bytes : 0),
                "pages were read that the snapshot does not have, or into a buffer of another size");
  std::vector<BlockMemory::Copy> copies;
  std::byte* at = to.data();
  for (std::size_t i = first; i < first + count && sizes.page_bytes != 0; ++i) {
    copies.push_back({.to = at, .from = store.pages().data(snapshot.pages()[i]), .bytes = sizes.page_bytes});
    at += sizes.page_bytes;
  }
  if (slot && sizes.slot_bytes != 0) {
    copies.push_back({.to = at, .from = store.slots().data(snapshot.slot()), .bytes = sizes.slot_bytes});
  }
  if (!copies.empty()) store.memory().to_host(copies);
}

std::optional<Sequence> load_sequence(StateStore& store, std::span<const std::byte> bytes,
                                      const std::shared_ptr<const void>& owner, std::size_t stored,
                                      std::size_t logical) {
  REPRISE_CHECK(bytes.size() == transfer_bytes(store.sizes(), stored),
                "the loaded bytes are not the size of the state");
  // The store reads it and nothing else; its own saved states are of memory that may be written.
  auto* data = const_cast<std::byte*>(bytes.data());
  const std::shared_ptr<std::byte> held(std::const_pointer_cast<void>(owner), data);
  return store.load({.bytes = HostBytes(held, bytes.size()), .stored = stored, .logical = logical});
}

}  // namespace reprise::gpu
