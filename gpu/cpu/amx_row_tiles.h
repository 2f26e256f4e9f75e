// Two tiles of rows of x, rounded to int8, for AMX's product of bytes. Included by amx_bytes.cc, with internal linkage.

#pragma once

#include <vector>

#include "gpu/cpu/amx_tiles.h"
#include "gpu/cpu/int8_product.h"

namespace reprise::gpu {
namespace {

/// Up to 32 rows: where they lie if those of a tile stand equally far apart, else a copy.
class RowTiles {
 public:
  template <std::size_t kBlock>
  void fill(const Int8Rows<kBlock>& x, std::size_t rows) {
    const std::size_t copied_stride = x.columns + 64;  // no two rows begin in one set of L1
    for (std::size_t first = 0; first < rows; first += kTileSide) {
      const std::size_t count = std::min(kTileSide, rows - first);
      Tile& tile = tiles_[first / kTileSide];
      tile = {.first = x.q(first), .stride = x.q(first + (count > 1 ? 1 : 0)) - x.q(first)};
      bool is_even = count == kTileSide;
      for (std::size_t i = 1; i < count; ++i) is_even &= x.q(first + i) - x.q(first + i - 1) == tile.stride;
      if (is_even) continue;
      if (copy_.size() < kPairRows * copied_stride) copy_.resize(kPairRows * copied_stride);
      for (std::size_t i = first; i < first + count; ++i) {
        std::memcpy(copy_.data() + i * copied_stride, x.q(i), x.columns);
      }
      tile = {.first = copy_.data() + first * copied_stride,
              .stride = static_cast<std::ptrdiff_t>(copied_stride)};
    }
  }

  const std::int8_t* at(std::size_t tile, std::size_t k) const { return tiles_[tile].first + k; }
  std::ptrdiff_t stride(std::size_t tile) const { return tiles_[tile].stride; }

 private:
  struct Tile {
    const std::int8_t* first = nullptr;
    std::ptrdiff_t stride = 0;
  };
  Tile tiles_[2];
  std::vector<std::int8_t> copy_;  // rows that do not exist are whatever it holds: nobody looks at their sums
};

/// Rows of x that meet a group of panels together: pairs of tiles, and what belongs to 256 elements of each pair's rows.
template <class Numbers>
struct RowPairs {
  const RowTiles* tiles;
  Numbers* numbers;  // [256 elements of k][pair]
  std::size_t rows;

  std::size_t pairs() const { return (rows + kPairRows - 1) / kPairRows; }
  std::size_t rows_of(std::size_t pair) const { return std::min(kPairRows, rows - pair * kPairRows); }
  Numbers& at(std::size_t k, std::size_t pair) const { return numbers[k * pairs() + pair]; }
};

/// The panels of a group of outputs: [256 elements of k][panel].
template <class Panel>
struct PanelGroup {
  Panel* panels;
  std::size_t count;

  Panel& at(std::size_t k, std::size_t panel) const { return panels[k * count + panel]; }
};

}  // namespace
}  // namespace reprise::gpu
