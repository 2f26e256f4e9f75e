#pragma once
// A prefill of few rows in two waves: a step of it is a chain of kernels that leave most of the GPU idle, so its second half
// goes through the layers right behind the first one, each layer as soon as the first half has left its state there.
// Slices may be cut anywhere on the grid without changing a bit, so nobody can tell but by the clock.
//
// Threading: plain values.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "models/model.h"

namespace reprise::models::cuda {

/// Of a slice: what goes first, and the rest.
class Waves {
 public:
  /// Rows for which they pay: fewer are one tile, more fill the GPU by themselves.
  static constexpr std::size_t kLeastRows = 128;
  static constexpr std::size_t kMostRows = 512;

  /// Nothing where the slices are no such prefill: several, of another size, with an adapter, of a prompt that will be
  /// compacted, or with a state that is wanted just where the waves meet.
  static std::optional<Waves> of(std::span<const Slice> slices);

  /// They refer to the slice that it was made of, and to this. Only the second one's last token can have a plan.
  Slice first() const;
  Slice second() const;
  /// Rows of the first.
  std::size_t ahead() const { return ahead_; }

 private:
  Waves(const Slice& slice, std::size_t ahead);

  Slice slice_;
  std::size_t ahead_;
  std::vector<SlotExport> early_;
  std::vector<SlotExport> late_;
};

}  // namespace reprise::models::cuda
