// Weights in blocks of 32 by AMX's product of bytes, with the bits of the definition (int8_product.h). Included by
// amx_bytes.cc, with internal linkage.
//
// A tile of sums is one block of sixteen rows of x by sixteen outputs: whole numbers, made by one instruction. Then comes
// the float part, on vectors of sixteen outputs. The work goes in sets of two tiles of rows by two of outputs by four
// blocks: their tiles, which L1 keeps, then their float part. (Both at a time, one set's tiles among the float part of
// the set before it, took 1.4 times as long on a Xeon.)

#pragma once

#include "gpu/cpu/amx_row_tiles.h"
#include "gpu/cpu/int8_bytes.h"
#include "gpu/cpu/int8_product.h"
#include "gpu/cpu/lanes.h"
#include "gpu/cpu/x86_vectors.h"

namespace reprise::gpu {
namespace {

inline constexpr std::size_t kTileDepth = 256;  // elements of k of a panel

template <class Quant>
class SmallBlockTiles {
 public:
  static constexpr TileConfig kConfig{32};
  static constexpr std::size_t kBlocks = kTileDepth / 32;

  /// 256 elements of k of sixteen outputs.
  struct Panel {
    alignas(64) std::uint32_t q[kTileDepth / 4][kTileSide];  // four k of each output, signed bytes
    alignas(64) float scales[kBlocks][kTileSide];
    alignas(64) float offsets[kBlocks][kTileSide];
  };
  /// What belongs to 256 elements of the rows of x.
  struct Numbers {
    float scales[kPairRows][kBlocks];
    float sums[kPairRows][kBlocks];
  };

  static void fill(const BytesOfRow (&rows)[kTileSide], std::size_t blocks, Panel& to) {
    const WideBits zero = _mm512_set1_epi8(static_cast<char>(Bytes<Quant>::kZero));
    for (std::size_t word = 0; word < blocks * 8; word += kTileSide) {
      turn_words([&](std::size_t r) { return rows[r].q + 4 * word; }, to.q + word);
      for (std::size_t line = word; line < word + kTileSide; ++line) {
        store_bits(_mm512_sub_epi8(load_bits(to.q[line]), zero), to.q[line]);
      }
    }
    std::uint32_t words[16][kTileSide];
    turn_words([&](std::size_t r) { return rows[r].words; }, words);
    std::memcpy(to.scales, words, sizeof(to.scales));
    if constexpr (Quant::kHasOffsets) std::memcpy(to.offsets, words + kBlocks, sizeof(to.offsets));
  }

  static void fill(const ActivationsOf<Quant>& x, std::size_t rows, std::size_t k, std::size_t blocks,
                   Numbers& to) {
    for (std::size_t i = 0; i < rows; ++i) {
      const float* scales = x.scales(i) + k / 32;
      if (blocks == kBlocks) {
        std::memcpy(to.scales[i], scales, sizeof(to.scales[i]));
      } else {
        std::copy_n(scales, blocks, to.scales[i]);
      }
      if constexpr (Quant::kHasOffsets) {
        const auto* sums = x.sums(i) + k / 32;
        for (std::size_t b = 0; b < blocks; ++b) to.sums[i][b] = static_cast<float>(sums[b]);
      }
    }
  }

  static constexpr std::size_t kPairsAtOnce = 1;

  /// outputs_of(panel, pair) says where the sums of each panel and pair go. blocks: of k, in all.
  template <class OutputsOf>
  void multiply(const RowPairs<Numbers>& x, const PanelGroup<Panel>& panels, std::size_t blocks,
                OutputsOf outputs_of) {
    for (std::size_t p = 0; p < panels.count; p += 2) {
      const std::size_t outputs = std::min<std::size_t>(2, panels.count - p);
      const auto panels_of = [&](std::size_t block) {
        const std::size_t k = block / kBlocks;
        return TwoPanels{{&panels.at(k, p), &panels.at(k, p + outputs - 1)}};
      };
      for (std::size_t block = 0; block <= blocks; ++block) {
        if (block < blocks) {
          multiply_block(x, block, panels_of(block));
        } else {
          store_tiles(block - 1);
        }
        if (block == 0 || (block % kSetBlocks != 0 && block != blocks)) continue;
        const std::size_t first = (block - 1) / kSetBlocks * kSetBlocks;
        const Set set{.numbers = &x.at(first / kBlocks, 0),
                      .panels = panels_of(first),
                      .block = first % kBlocks,
                      .blocks = block - first,
                      .begin = first == 0};
        for (std::size_t row = 0; row < x.rows; row += kTileSide) {
          for (std::size_t t = 0; t < outputs; ++t) add_up(set, row, t, totals_[t].of[row]);
        }
      }
      for (std::size_t t = 0; t < outputs; ++t) {
        const PairOutputs to = outputs_of(p + t, 0);
        for (std::size_t i = 0; i < x.rows; ++i) to.store(i, _mm512_load_ps(totals_[t].of[i]));
      }
    }
  }

 private:
  static constexpr std::size_t kSetBlocks = 4;

  struct TwoPanels {
    const Panel* of[2];
  };
  struct Set {
    const Numbers* numbers;
    TwoPanels panels;
    std::size_t block;  // the first, of the panels'
    std::size_t blocks;
    bool begin;  // of k
  };

  void store_tiles(std::size_t block) {
    auto& to = sums_[block % kSetBlocks];
    _tile_stored(0, to[0], 64);
    _tile_stored(1, to[1], 64);
    _tile_stored(2, to[2], 64);
    _tile_stored(3, to[3], 64);
  }

  /// The four tiles of a block. A tile of the block in front is stored right before this one takes it: by then its sums
  /// are there. (Of the first block what is stored is nothing, to where the fourth one's will be.)
  void multiply_block(const RowPairs<Numbers>& x, std::size_t block, const TwoPanels& panels) {
    const RowTiles& rows = x.tiles[0];
    const std::size_t word = 8 * (block % kBlocks);
    auto& before = sums_[(block + kSetBlocks - 1) % kSetBlocks];
    _tile_loadd(4, rows.at(0, 32 * block), rows.stride(0));
    _tile_loadd(6, panels.of[0]->q[word], 64);
    _tile_stored(0, before[0], 64);
    _tile_zero(0);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, panels.of[1]->q[word], 64);
    _tile_stored(1, before[1], 64);
    _tile_zero(1);
    _tile_dpbssd(1, 4, 7);
    if (x.rows <= kTileSide) return;
    _tile_loadd(5, rows.at(1, 32 * block), rows.stride(1));
    _tile_stored(2, before[2], 64);
    _tile_zero(2);
    _tile_dpbssd(2, 5, 6);
    _tile_stored(3, before[3], 64);
    _tile_zero(3);
    _tile_dpbssd(3, 5, 7);
  }

  /// The float part of sixteen rows from `row` by the panel t.
  void add_up(const Set& set, std::size_t row, std::size_t t, float* to) const {
    const Panel& panel = *set.panels.of[t];
    __m512 totals[kTileSide];
    for_each_index<kTileSide>([&](auto i) __attribute__((always_inline)) {
      totals[i] = set.begin ? _mm512_setzero_ps() : _mm512_load_ps(to + i * kTileSide);
    });
    const float* x_scales = set.numbers->scales[row] + set.block;
    [[maybe_unused]] const float* x_sums = set.numbers->sums[row] + set.block;
    for (std::size_t part = 0; part < set.blocks; ++part, ++x_scales, ++x_sums) {
      const std::int32_t* sums = sums_[part][row / kTileSide * 2 + t][0];
      const __m512 scale = _mm512_load_ps(panel.scales[set.block + part]);
      [[maybe_unused]] __m512 offset;
      if constexpr (Quant::kHasOffsets) offset = _mm512_load_ps(panel.offsets[set.block + part]);
      for_each_index<kTileSide>([&](auto i) __attribute__((always_inline)) {
        __m512 one = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_load_si512(sums + i * kTileSide)));
        if constexpr (Quant::kHasOffsets) {
          one = _mm512_fmadd_ps(offset, _mm512_set1_ps(x_sums[i * kBlocks]), one);
        }
        totals[i] = _mm512_fmadd_ps(_mm512_set1_ps(x_scales[i * kBlocks]), one, totals[i]);
      });
    }
    for_each_index<kTileSide>([&](auto i) __attribute__((always_inline)) {
      _mm512_store_ps(to + i * kTileSide, totals[i]);
    });
  }

  // Of each block its tiles: rows 0 outputs 0, rows 0 outputs 1, rows 1 outputs 0, ...
  alignas(64) WholeTile sums_[kSetBlocks][4];
  PairTotals totals_[2];
};

}  // namespace
}  // namespace reprise::gpu
