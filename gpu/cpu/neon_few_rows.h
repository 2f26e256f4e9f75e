// The fast product of quantised formats (int8_product.h) with SMMLA for few rows of x: weights come from the file's blocks
// and are paired on their way, where a panel in memory would be used too few times. Included by the kernel sources for
// processors with FEAT_I8MM, with internal linkage.
//
// A Tile of kPairs pairs of rows has kOutputs, and
//   run(x, w, blocks, TileOutputs)   x: blocks of its rows, w: the blocks of each of its outputs

#pragma once

#include "gpu/cpu/neon_few_blocks_tile.h"
#include "gpu/cpu/neon_few_groups_tile.h"

namespace reprise::gpu {
namespace {

/// Outputs [n, n + Tile::kOutputs), of which `outputs` exist, of `rows` rows.
template <class Tile, class Quant>
inline void few_rows_tile(const RowsBlock<Quant>* x, std::size_t rows, const WeightView& w, std::size_t n,
                          std::size_t outputs, float* y, std::size_t y_stride) {
  constexpr std::size_t kOutputs = Tile::kOutputs;
  const std::size_t blocks = w.columns / Quant::kFormat.block_size;
  const typename Quant::Block* weights[kOutputs];  // those that do not exist repeat the last one
  for (std::size_t j = 0; j < kOutputs; ++j) {
    weights[j] = reinterpret_cast<const typename Quant::Block*>(w.row(n + std::min(j, outputs - 1)));
  }
  if (rows == Tile::kRows && outputs == kOutputs) {
    return Tile::run(x, weights, blocks, {y + n, y_stride, false});
  }
  float apart[Tile::kRows][kOutputs];
  Tile::run(x, weights, blocks, {apart[0], kOutputs, false});
  for (std::size_t i = 0; i < rows; ++i) std::copy_n(apart[i], outputs, y + i * y_stride + n);
}

template <class Quant, std::size_t kPairs>
using FewRowsTile =
    std::conditional_t<kHasGroupScales<Quant>, FewGroupsTile<Quant, kPairs>, FewBlocksTile<Quant, kPairs>>;

/// Tiles of at most 2 * kRowPairs rows, about as many in each, that share what is read of weights in the caches alone.
template <class Quant>
void few_rows_multiply(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                       std::size_t n_begin, std::size_t n_end) {
  thread_local Room<RowsBlock<Quant>> room;
  const ActivationsOf<Quant> all(listed, w.columns);
  const std::size_t blocks = w.columns / Quant::kFormat.block_size;
  const std::size_t pairs = (m + 1) / 2;
  const std::size_t tiles = (pairs + kRowPairs - 1) / kRowPairs;
  const std::size_t most = (pairs + tiles - 1) / tiles;  // pairs of a tile
  RowsBlock<Quant>* x = room.of(tiles * blocks);
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    interleave_rows<Quant>(all, 2 * pair, std::min(2 * pair + 1, m - 1), 0, blocks, x + pair / most * blocks,
                           pair % most);
  }
  for_each_index<kRowPairs>([&](auto before) __attribute__((always_inline)) {
    using Tile = FewRowsTile<Quant, before + 1>;
    if (most != before + 1) return;
    for (std::size_t n = n_begin; n < n_end; n += Tile::kOutputs) {
      for (std::size_t tile = 0; tile < tiles; ++tile) {
        const std::size_t row = tile * Tile::kRows;
        few_rows_tile<Tile>(x + tile * blocks, std::min(Tile::kRows, m - row), w, n,
                            std::min(Tile::kOutputs, n_end - n), y + row * y_stride, y_stride);
      }
    }
  });
}

}  // namespace
}  // namespace reprise::gpu
