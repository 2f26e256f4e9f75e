// The blocking of GEMMs with instructions that multiply two rows of x by two of w into a 2x2 accumulator
// (SMMLA, BFMMLA). The instruction and the operand layouts belong to a Kernel.
//
// Weights are unpacked once, a panel of outputs at a time, in pairs of outputs; x is interleaved in pairs of
// rows. Both are in the order of the tiles. Panels of weights stay in L2 and stream through L1, where the
// rows of x stay.
//
// A Kernel refers to x and w, and has
//   kRowPairs, kOutputPairs    tile size; its accumulators stay in registers
//   kElements                  elements of k per block
//   kDepth                     elements of k per pass over many rows; between passes y holds the sums
//   Rows, Outputs              one block of a tile's row pairs, and of its output pairs
//   interleave(row, other, first, blocks, Rows*, pair)   lays out two rows of x, from block `first` on
//   unpack(n, other, first, blocks, Outputs*, pair)      lays out two outputs, from block `first` on
//   multiply<kPairs>(x, w, blocks, TileOutputs)          adds blocks >= 1 blocks of k to the tile
//
// Bits: an output is one chain over ascending k, carried through y between passes; rows and outputs of a tile
// do not interact.

#pragma once

#include <arm_neon.h>

#include <algorithm>

#include "gpu/cpu/lanes.h"
#include "gpu/cpu/scratch_buffer.h"

namespace reprise::gpu {
namespace {

/// The destination of a tile. Row pair i and output pair j share one register.
struct TileOutputs {
  float* y;
  std::size_t stride;
  bool is_begun;  // y holds the sums of the previous blocks

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
  /// `kernel` must outlive this object.
  PanelProduct(const Kernel& kernel, std::size_t m, std::size_t columns, float* y, std::size_t y_stride)
      : kernel_(kernel), m_(m), columns_(columns), y_(y), y_stride_(y_stride) {}

  /// Computes outputs [begin, end) of all rows.
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
  // Panels stay in L2 while rows pass (in L1 if one tile has all rows); rows stay in L1 while panels pass.
  static constexpr std::size_t kFirstCache = std::size_t{32} << 10;
  static constexpr std::size_t kSecondCache = std::size_t{640} << 10;
  static constexpr std::size_t kTileRows = 2 * kRowPairs;
  static constexpr std::size_t kTileOutputs = 2 * kOutputPairs;
  // Outputs per cache line of y. A line is finished before the next, because rows of y are far apart and
  // compete for few sets of L1.
  static constexpr std::size_t kLineOutputs = 64 / sizeof(float);

  void multiply_blocks(std::size_t begin, std::size_t end) {
    thread_local ScratchBuffer<Outputs> panel_scratch;
    thread_local ScratchBuffer<Rows> row_scratch;
    const std::size_t panel_bytes = m_ <= kTileRows ? kFirstCache : kSecondCache;
    const std::size_t panel_tiles =
        std::min(tiles_of(end - begin, kTileOutputs), tiles_in(panel_bytes, sizeof(Outputs)));
    const std::size_t row_tiles = std::min(tiles_of(m_, kTileRows), tiles_in(kFirstCache, sizeof(Rows)));
    Rows* rows = row_scratch.of(row_tiles * blocks_);
    Outputs* panel = panel_scratch.of(panel_tiles * blocks_);
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
  /// The number of tiles, at least one, that fit `bytes`; `block`: bytes per block.
  std::size_t tiles_in(std::size_t bytes, std::size_t block) const {
    return std::max<std::size_t>(1, bytes / (block * blocks_));
  }

  /// Unpacks outputs [begin, end) as whole tiles; missing outputs repeat the last.
  void unpack_panel(std::size_t begin, std::size_t end, Outputs* to) const {
    for (std::size_t n = begin; n < end; n += kTileOutputs, to += blocks_) {
      for (std::size_t pair = 0; pair < kOutputPairs; ++pair) {
        const std::size_t first = std::min(n + 2 * pair, end - 1);
        const std::size_t second = std::min(n + 2 * pair + 1, end - 1);
        kernel_.unpack(first, second, first_, blocks_, to, pair);
      }
    }
  }

  /// Interleaves rows [begin, end) of x; an unpaired last row is paired with itself.
  void interleave(std::size_t begin, std::size_t end, Rows* to) const {
    for (std::size_t row = begin; row < end; row += kTileRows, to += blocks_) {
      for (std::size_t pair = 0; pair < kRowPairs && row + 2 * pair < end; ++pair) {
        const std::size_t first = row + 2 * pair;
        kernel_.interleave(first, std::min(first + 1, end - 1), first_, blocks_, to, pair);
      }
    }
  }

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
  std::size_t first_ = 0;   // first block of k of the current pass
  std::size_t blocks_ = 0;  // number of blocks of the current pass
};

}  // namespace
}  // namespace reprise::gpu
