// Products with the instructions that multiply two rows of x by two of w into a 2x2 tile of sums: what is
// unpacked when, and what waits in which cache. The instruction itself, and how its operands lie, is a
// Kernel's.
//
// Weights are unpacked once, a panel of outputs at a time, in pairs of outputs, and x is interleaved in pairs
// of rows, both in the order of the tiles that are multiplied. Tiles of weights pass from the second cache
// through the first, where rows of x stay.
//
// A Kernel knows x and w, and has
//   kRowPairs, kOutputPairs                      of a tile, whose sums stay in registers
//   kElements                                    of k that a block has
//   kDepth                                       of k that many rows are multiplied over before the next, their sums
//                                                waiting in y
//   Rows, Outputs                                a block of a tile's pairs of rows, and of its pairs of outputs
//   interleave(row, other, first, blocks, Rows*, pair)   blocks of two rows of x, from block `first` on
//   unpack(n, other, first, blocks, Outputs*, pair)      the same of two outputs
//   multiply<kPairs>(x, w, blocks, TileOutputs)  adds blocks of k, one at least, to the tile's sums
//
// Exactness: a sum is one chain over ascending k, in y between the parts of it; rows and outputs of a tile do
// not meet.

#pragma once

#include <arm_neon.h>

#include <algorithm>

#include "gpu/cpu/lanes.h"
#include "gpu/cpu/room.h"

namespace reprise::gpu {
namespace {

/// Where a tile's sums go. Pair i of rows and pair j of outputs make one register.
struct TileOutputs {
  float* y;
  std::size_t stride;
  bool is_begun;  // y has sums already

  [[gnu::always_inline]] float32x4_t load(std::size_t i, std::size_t j) const {
    if (!is_begun) return vdupq_n_f32(0.0F);
    return vcombine_f32(vld1_f32(y + 2 * i * stride + 2 * j), vld1_f32(y + (2 * i + 1) * stride + 2 * j));
  }
  [[gnu::always_inline]] void store(std::size_t i, std::size_t j, float32x4_t sum) const {
    vst1_f32(y + 2 * i * stride + 2 * j, vget_low_f32(sum));
    vst1_f32(y + (2 * i + 1) * stride + 2 * j, vget_high_f32(sum));
  }
};

template <class Kernel>
class PanelProduct {
 public:
  /// The kernel must outlive it.
  PanelProduct(const Kernel& kernel, std::size_t m, std::size_t columns, float* y, std::size_t y_stride)
      : kernel_(kernel), m_(m), columns_(columns), y_(y), y_stride_(y_stride) {}

  /// Outputs [begin, end).
  void multiply(std::size_t begin, std::size_t end) {
    const std::size_t all = (columns_ + Kernel::kElements - 1) / Kernel::kElements;
    const std::size_t parts = m_ <= kTileRows ? 1 : (columns_ + Kernel::kDepth - 1) / Kernel::kDepth;
    const std::size_t most = (all + parts - 1) / parts;
    for (first_ = 0; first_ < all; first_ += blocks_) {
      blocks_ = std::min(all - first_, most);
      multiply_blocks(begin, end);
    }
  }

 private:
  using Rows = typename Kernel::Rows;
  using Outputs = typename Kernel::Outputs;
  static constexpr std::size_t kRowPairs = Kernel::kRowPairs;
  static constexpr std::size_t kOutputPairs = Kernel::kOutputPairs;
  // What is unpacked stays in the second cache while rows pass, or in the first if few do; rows stay in the
  // first while what is unpacked passes.
  static constexpr std::size_t kFirstCache = std::size_t{32} << 10;
  static constexpr std::size_t kSecondCache = std::size_t{640} << 10;
  static constexpr std::size_t kTileRows = 2 * kRowPairs;
  static constexpr std::size_t kTileOutputs = 2 * kOutputPairs;
  // Outputs that fill a line of the cache in a row of y, all of which are computed before it is left: rows of
  // y are far apart, and meet in few places of the first cache.
  static constexpr std::size_t kLineOutputs = 64 / sizeof(float);

  /// The blocks from first_ on, added to y.
  void multiply_blocks(std::size_t begin, std::size_t end) {
    thread_local Room<Outputs> panel_room;
    thread_local Room<Rows> row_room;
    const std::size_t panel_bytes = m_ <= kTileRows ? kFirstCache : kSecondCache;
    const std::size_t panel_tiles =
        std::min(tiles_of(end - begin, kTileOutputs), tiles_in(panel_bytes, sizeof(Outputs)));
    const std::size_t row_tiles = std::min(tiles_of(m_, kTileRows), tiles_in(kFirstCache, sizeof(Rows)));
    Rows* rows = row_room.of(row_tiles * blocks_);
    Outputs* panel = panel_room.of(panel_tiles * blocks_);
    const bool all_rows = row_tiles * kTileRows >= m_;
    for (std::size_t n = begin; n < end; n += panel_tiles * kTileOutputs) {
      const std::size_t n_end = std::min(end, n + panel_tiles * kTileOutputs);
      unpack_panel(n, n_end, panel);
      for (std::size_t row = 0; row < m_; row += row_tiles * kTileRows) {
        const std::size_t row_end = std::min(m_, row + row_tiles * kTileRows);
        if (n == begin || !all_rows) interleave(row, row_end, rows);
        for (std::size_t line = n; line < n_end; line += kLineOutputs) {
          const std::size_t line_end = std::min(n_end, line + kLineOutputs);
          const Rows* x = rows;
          for (std::size_t i = row; i < row_end; i += kTileRows, x += blocks_) {
            const Outputs* w = panel + (line - n) / kTileOutputs * blocks_;
            for (std::size_t output = line; output < line_end; output += kTileOutputs, w += blocks_) {
              tile<kRowPairs>(x, i, std::min(row_end - i, kTileRows), w, output,
                              std::min(n_end - output, kTileOutputs));
            }
          }
        }
      }
    }
  }

  static std::size_t tiles_of(std::size_t count, std::size_t each) { return (count + each - 1) / each; }
  /// Tiles of blocks of a size that `bytes` have room for, one at least.
  std::size_t tiles_in(std::size_t bytes, std::size_t block) const {
    return std::max<std::size_t>(1, bytes / (block * blocks_));
  }

  /// Outputs [begin, end); whole tiles, those that do not exist repeat the last one.
  void unpack_panel(std::size_t begin, std::size_t end, Outputs* to) const {
    for (std::size_t n = begin; n < end; n += kTileOutputs, to += blocks_) {
      for (std::size_t pair = 0; pair < kOutputPairs; ++pair) {
        const std::size_t first = std::min(n + 2 * pair, end - 1);
        const std::size_t second = std::min(n + 2 * pair + 1, end - 1);
        kernel_.unpack(first, second, first_, blocks_, to, pair);
      }
    }
  }

  /// Rows [begin, end) of x; a second row of the last pair that does not exist repeats the first.
  void interleave(std::size_t begin, std::size_t end, Rows* to) const {
    for (std::size_t row = begin; row < end; row += kTileRows, to += blocks_) {
      for (std::size_t pair = 0; pair < kRowPairs && row + 2 * pair < end; ++pair) {
        const std::size_t first = row + 2 * pair;
        kernel_.interleave(first, std::min(first + 1, end - 1), first_, blocks_, to, pair);
      }
    }
  }

  /// `rows` rows from `row`, `outputs` outputs from n.
  template <std::size_t kPairs>
  void tile(const Rows* x, std::size_t row, std::size_t rows, const Outputs* w, std::size_t n,
            std::size_t outputs) {
    if constexpr (kPairs > 1) {
      if (rows <= 2 * (kPairs - 1)) return tile<kPairs - 1>(x, row, rows, w, n, outputs);
    }
    TileOutputs to{y_ + row * y_stride_ + n, y_stride_, first_ > 0};
    if (rows == 2 * kPairs && outputs == kTileOutputs) {
      return Kernel::template multiply<kPairs>(x, w, blocks_, to);
    }
    // A tile that is not whole has a place of its own.
    float apart[2 * kPairs][kTileOutputs] = {};
    if (first_ > 0) {
      for (std::size_t i = 0; i < rows; ++i) std::copy_n(to.y + i * to.stride, outputs, apart[i]);
    }
    Kernel::template multiply<kPairs>(x, w, blocks_, {apart[0], kTileOutputs, to.is_begun});
    for (std::size_t i = 0; i < rows; ++i) std::copy_n(apart[i], outputs, to.y + i * to.stride);
  }

  const Kernel& kernel_;
  const std::size_t m_;
  const std::size_t columns_;
  float* y_;
  const std::size_t y_stride_;
  std::size_t first_ = 0;   // of the blocks that are multiplied now
  std::size_t blocks_ = 0;  // and how many
};

}  // namespace
}  // namespace reprise::gpu
