// Weights in blocks of 32 by AMX's product of bytes, with the bits of the definition (int8_product.h). Included by
// amx_bytes.cc, with internal linkage.
//
// A tile of sums is one block of sixteen rows of x by sixteen outputs: whole numbers, made by one instruction. What it
// costs is the float part, on vectors of sixteen outputs. So the work goes in sets of two tiles of rows by two of
// outputs by four blocks, and while the tiles of one set are multiplied, the set before it is scaled and added up; the
// processor does both at a time.

#pragma once

#include <algorithm>
#include <cstring>

#include "gpu/cpu/amx_tiles.h"
#include "gpu/cpu/int8_bytes.h"
#include "gpu/cpu/int8_product.h"
#include "gpu/cpu/int8_vectors.h"
#include "gpu/cpu/straight_code.h"

namespace reprise::gpu {
namespace {

inline constexpr std::size_t kTileDepth = 256;  // elements of k of a panel
inline constexpr std::size_t kTilePanels = 32;  // of a group of outputs, which L2 keeps
inline constexpr std::size_t kPairRows = 2 * kTileSide;
using WholeTile = std::int32_t[kTileSide][kTileSide];  // [row of x][output]

/// y where it has all of a tile, else a tile of its own.
struct TileOfOutputs {
  float* y;
  std::size_t stride;
  std::size_t rows;     // that exist
  std::size_t outputs;  // likewise

  bool is_whole() const { return rows == kTileSide && outputs == kTileSide; }

  /// work(where, stride) for sixteen rows of sixteen sums. What was there is there if `add`.
  template <class Work>
  void with(bool add, Work work) const {
    if (is_whole()) return work(y, stride);
    alignas(64) float own[kTileSide][kTileSide] = {};
    const std::size_t bytes = outputs * sizeof(float);
    if (add) {
      for (std::size_t i = 0; i < rows; ++i) std::memcpy(own[i], y + i * stride, bytes);
    }
    work(own[0], kTileSide);
    for (std::size_t i = 0; i < rows; ++i) std::memcpy(y + i * stride, own[i], bytes);
  }
};

template <class Quant>
class SmallBlockTiles {
 public:
  static constexpr std::size_t kBlocks = kTileDepth / 32;
  static constexpr TileConfig kConfig{32};

  /// Elements [k, k + 32 * blocks) of sixteen outputs.
  struct Panel {
    alignas(64) std::uint32_t q[kTileDepth / 4][kTileSide];  // four k of each output, signed bytes
    alignas(64) float scales[kBlocks][kTileSide];
    alignas(64) float offsets[kBlocks][kTileSide];
  };
  /// The same elements of two tiles of rows of x.
  struct Rows {
    alignas(64) std::int8_t q[kPairRows][kTileDepth];
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

  static void fill(const ActivationsOf<Quant>& x, std::size_t row, std::size_t k, std::size_t blocks,
                   std::size_t at, Rows& to) {
    std::memcpy(to.q[at], x.q(row) + k, blocks * 32);
    std::memcpy(to.scales[at], x.scales(row) + k / 32, blocks * sizeof(float));
    if constexpr (Quant::kHasOffsets) {
      for (std::size_t b = 0; b < blocks; ++b) to.sums[at][b] = static_cast<float>(x.sums(row)[k / 32 + b]);
    }
  }

  /// Rows of x by the panels of a group. y: of the group's first output and the first row.
  void multiply(const Rows& x, std::size_t rows, const Panel* panels, std::size_t outputs, std::size_t blocks,
                bool add, float* y, std::size_t y_stride) {
    std::size_t set = 0;
    Set before;
    for (std::size_t n = 0; n < outputs; n += 2 * kTileSide) {
      for (std::size_t block = 0; block < blocks; block += kSetBlocks, ++set) {
        Set now{.x = &x,
                .panels = {panels + n / kTileSide, panels + std::min(n + kTileSide, outputs - 1) / kTileSide},
                .block = block,
                .blocks = std::min(kSetBlocks, blocks - block),
                .sums = sums_[set % 2],
                .add = add || block != 0,
                .y = y + n,
                .y_stride = y_stride,
                .rows = rows,
                .outputs = std::min(2 * kTileSide, outputs - n)};
        for (std::size_t part = 0; part < 4; ++part) {
          if (part < now.blocks) multiply_block(now, part);
          if (set != 0) add_up(before, part);
        }
        before = now;
      }
    }
    for (std::size_t part = 0; part < 4; ++part) add_up(before, part);
  }

 private:
  static constexpr std::size_t kSetBlocks = 4;

  struct Set {
    const Rows* x = nullptr;
    const Panel* panels[2] = {};  // a lone one twice
    std::size_t block = 0;        // the first
    std::size_t blocks = 0;
    WholeTile (*sums)[4] = nullptr;  // of each block its tiles: rows 0 outputs 0, rows 0 outputs 1, ...
    bool add = false;                // to what y has
    float* y = nullptr;
    std::size_t y_stride = 0;
    std::size_t rows = 0;
    std::size_t outputs = 0;
  };

  /// The four tiles of block `part` of a set.
  static void multiply_block(const Set& set, std::size_t part) {
    const std::size_t block = set.block + part;
    WholeTile* to = set.sums[part];
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(4, set.x->q[0] + 32 * block, kTileDepth);
    _tile_loadd(6, set.panels[0]->q[8 * block], 64);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, set.panels[1]->q[8 * block], 64);
    _tile_dpbssd(1, 4, 7);
    _tile_stored(0, to[0], 64);
    _tile_stored(1, to[1], 64);
    if (set.rows <= kTileSide) return;
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(5, set.x->q[kTileSide] + 32 * block, kTileDepth);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
    _tile_stored(2, to[2], 64);
    _tile_stored(3, to[3], 64);
  }

  /// The float part of a set's tile.
  static void add_up(const Set& set, std::size_t tile) {
    const std::size_t row = tile / 2 * kTileSide;
    const std::size_t output = tile % 2 * kTileSide;
    if (row >= set.rows || output >= set.outputs) return;
    const Panel& panel = *set.panels[tile % 2];
    const TileOfOutputs outputs{.y = set.y + row * set.y_stride + output,
                                .stride = set.y_stride,
                                .rows = std::min(kTileSide, set.rows - row),
                                .outputs = std::min(kTileSide, set.outputs - output)};
    outputs.with(set.add, [&](float* y, std::size_t stride) {
      __m512 totals[kTileSide];
      for_each_index<kTileSide>([&](auto i) __attribute__((always_inline)) {
        totals[i] = set.add ? _mm512_loadu_ps(y + i * stride) : _mm512_setzero_ps();
      });
      const float* x_scales = set.x->scales[row] + set.block;
      [[maybe_unused]] const float* x_sums = set.x->sums[row] + set.block;
      for (std::size_t part = 0; part < set.blocks; ++part, ++x_scales, ++x_sums) {
        const std::int32_t* sums = set.sums[part][tile][0];
        const __m512 scale = _mm512_load_ps(panel.scales[set.block + part]);
        [[maybe_unused]] __m512 offset;
        if constexpr (Quant::kHasOffsets) offset = _mm512_load_ps(panel.offsets[set.block + part]);
        for_each_index<kTileSide>([&](auto i) __attribute__((always_inline)) {
          __m512 t = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_load_si512(sums + i * kTileSide)));
          if constexpr (Quant::kHasOffsets) {
            t = _mm512_fmadd_ps(offset, _mm512_set1_ps(x_sums[i * kBlocks]), t);
          }
          totals[i] = _mm512_fmadd_ps(_mm512_set1_ps(x_scales[i * kBlocks]), t, totals[i]);
        });
      }
      for_each_index<kTileSide>([&](auto i) __attribute__((always_inline)) {
        _mm512_storeu_ps(y + i * stride, totals[i]);
      });
    });
  }

  alignas(64) WholeTile sums_[2][kSetBlocks][4];
};

}  // namespace
}  // namespace reprise::gpu
