#pragma once
// Saving states at positions inside a slice (Slice::exports). Recurrent kernels stop at each such position
// and the part's bytes of the slot are copied; GEMMs are not split. If the position is inside a page, the
// page's rows before it are copied too.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "models/cpu/step.h"

namespace reprise::models::cpu {

/// A part's bytes within a sequence's slot.
struct PartOfSlot {
  std::size_t offset;
  std::size_t bytes;
};

/// Calls `recur`, which advances that part of the slots of step.slices by exactly their rows: once if no
/// slice has exports, else once per stretch between export positions. The bits do not depend on how slices
/// are cut.
template <class Recur>
void run_with_exports(Step& step, const PartOfSlot& part, const Recur& recur) {
  std::size_t most = 0;
  for (const StepSlice& slice : step.slices) most = std::max(most, slice.exports.size());
  if (most == 0) return recur();
  const std::vector<StepSlice> whole = std::exchange(step.slices, {});
  for (std::size_t stretch = 0; stretch <= most; ++stretch) {
    std::vector<std::byte*> to;  // destination for each slice of the stretch; null: none
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

/// For each export inside a page, copies the rows before it to its tail page. The part has `heads` times
/// kPageTokens rows of `row_bytes` at `offset` of a page. Call it after the rows are written.
inline void export_tails(const Step& step, std::size_t offset, std::size_t heads, std::size_t row_bytes) {
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
