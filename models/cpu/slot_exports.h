#pragma once
// States that a pass leaves on its way: where a slice goes beyond places whose state is wanted (Slice::exports), what goes along
// the sequence stops there for a moment, and its part of the slot is copied; products do not stop. Of a page that is not full at such a
// place the rows that are there are copied.
//
// Threading: as Step.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "models/cpu/step.h"

namespace reprise::models::cpu {

/// What a part has of a sequence's slot.
struct PartOfSlot {
  std::size_t offset;
  std::size_t bytes;
};

/// Calls `recur`, which goes through step.slices and advances that part of their slots by exactly their rows: once where no
/// slice leaves a state, else once for each stretch between such places. Bits do not depend on how slices are cut.
template <class Recur>
void leaving_states(Step& step, const PartOfSlot& part, const Recur& recur) {
  std::size_t most = 0;
  for (const StepSlice& slice : step.slices) most = std::max(most, slice.exports.size());
  if (most == 0) return recur();
  const std::vector<StepSlice> whole = std::exchange(step.slices, {});
  for (std::size_t stretch = 0; stretch <= most; ++stretch) {
    std::vector<std::byte*> to;  // of each slice of the stretch; null: nowhere
    step.slices.clear();
    for (const StepSlice& slice : whole) {
      if (stretch > slice.exports.size()) continue;
      const bool ends_slice = stretch == slice.exports.size();
      const std::size_t begin = stretch == 0 ? 0 : slice.exports[stretch - 1].after;
      const std::size_t end = ends_slice ? slice.rows : slice.exports[stretch].after;
      if (begin == end) continue;
      step.slices.push_back({.sequence = slice.sequence,
                             .first_row = slice.first_row + begin,
                             .rows = end - begin,
                             .stored = slice.stored + begin,
                             .logical = slice.logical + begin,
                             .pages = {}});
      to.push_back(ends_slice ? nullptr : slice.exports[stretch].slot);
    }
    if (!step.slices.empty()) recur();
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (to[i] == nullptr) continue;
      std::memcpy(to[i] + part.offset, step.slices[i].sequence->slot_data() + part.offset, part.bytes);
    }
  }
  step.slices = whole;
}

/// Rows of pages: where a part keeps `heads` times 64 rows of so many bytes from `offset` on, those of the tokens before each such
/// place inside of a page go to its tail. When they are written.
inline void leave_tails(const Step& step, std::size_t offset, std::size_t heads, std::size_t row_bytes) {
  for (const StepSlice& slice : step.slices) {
    for (const SlotExport& one : slice.exports) {
      const std::size_t at = slice.stored + one.after;
      const std::size_t rows = at % gpu::kPageTokens;
      if (one.tail == nullptr || rows == 0) continue;
      const std::byte* page = slice.sequence->page_data(at / gpu::kPageTokens);
      for (std::size_t head = 0; head < heads; ++head) {
        const std::size_t first = offset + head * gpu::kPageTokens * row_bytes;
        std::memcpy(one.tail + first, page + first, rows * row_bytes);
      }
    }
  }
}

}  // namespace reprise::models::cpu
