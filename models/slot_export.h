#pragma once
// A request for the state at a position inside a prefill slice.

#include <cstddef>
#include <cstdint>

namespace reprise::models {

/// The per-sequence state wanted after some tokens of a prefill slice; bitwise identical to a slice ending
/// there.
struct SlotExport {
  std::uint32_t after;  // tokens of the slice: a multiple of the grid, fewer than all
  std::byte* slot;      // zeroed, in the same memory as the sequence's slot; each layer writes its part
  /// Zeroed page for the last, partial page of tokens; null if the position is at a page boundary.
  std::byte* tail = nullptr;
};

}  // namespace reprise::models
