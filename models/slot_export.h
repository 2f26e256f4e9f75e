#pragma once
// A state that a pass leaves inside a slice.

#include <cstddef>
#include <cstdint>

namespace reprise::models {

/// A place inside a prefill slice whose per-sequence state is wanted, with the bits that a slice which ends there leaves.
struct SlotExport {
  std::uint32_t after;  // tokens of the slice: on the grid, and not all of them
  std::byte* slot;      // of the same memory as the sequence's, and zeros; gets every layer's part
  /// Likewise a page, for the tokens of the last one where the place is inside of it; null: it is not.
  std::byte* tail = nullptr;
};

}  // namespace reprise::models
