// The fast product of quantised formats (int8_product.h) with SDOT for a few rows of x, of formats whose blocks have several
// groups. Included by the kernel sources for processors with FEAT_DotProd, with internal linkage.
//
// As in panels (neon_dot_panels.h) the lanes of a sum are outputs, four of them, so that what a group has of its own is one
// vector. A panel would be used too few times: instead the packed bytes of four blocks are turned, fewer than their numbers
// are, and unpacked on their way to the products.

#pragma once

#include <algorithm>

#include "gpu/cpu/int8_product.h"
#include "gpu/cpu/neon_dot_product.h"
#include "gpu/cpu/neon_group_sums.h"
#include "gpu/cpu/neon_ordered.h"
#include "gpu/cpu/neon_quants.h"
#include "gpu/cpu/neon_turned_blocks.h"
#include "gpu/cpu/room.h"

namespace reprise::gpu {
namespace {

/// kRows rows by four outputs.
template <class Quant, std::size_t kRows>
struct DotFewTile {
  using X = ActivationsOf<Quant>;
  using Block = typename Quant::Block;
  static constexpr std::size_t kElements = Quant::kFormat.block_size;
  static constexpr std::size_t kGroups = kElements / Quant::kGroup;
  static constexpr std::size_t kEach = Quant::kGroup / 16;  // sixteens of a group
  using Groups = GroupScales<Quant>;
  using Turned = TurnedBlocks<Quant, 4, turn_words>;

  /// I of a block.
  [[gnu::always_inline]] static void multiply(const Turned& w, const Groups& scales,
                                              const std::int8_t* const (&q)[kRows],
                                              int32x4_t (&whole)[kRows]) {
    for (std::size_t i = 0; i < kRows; ++i) zero_here(whole[i]);
    int32x4_t dots[2][kRows];  // of a group, and of the one before
    for_each_index<kGroups>([&](auto group) __attribute__((always_inline)) {
      int32x4_t(&own)[kRows] = dots[group % 2];
      const int32x4_t(&before)[kRows] = dots[1 - group % 2];
      constexpr std::size_t kBefore = decltype(group)::value == 0 ? 0 : decltype(group)::value - 1;
      const int32x4_t scale = scales.template wide<kBefore>();
      for (std::size_t i = 0; i < kRows; ++i) zero_here(own[i]);
      int8x16_t x[kRows];
      for_each_index<4 * kEach>([&](auto step) __attribute__((always_inline)) {
        constexpr std::size_t kStep = decltype(step)::value;
        constexpr std::size_t kIndex = decltype(group)::value * kEach + kStep / 4;
        const int8x16_t numbers = sixteen_numbers<Quant, kIndex>(w.parts[kStep % 4].block);
        if constexpr (kStep % 4 == 0) {
          for (std::size_t i = 0; i < kRows; ++i) load_here(x[i], q[i] + 16 * kIndex);
        }
        for (std::size_t i = 0; i < kRows; ++i) dot_here<kStep % 4>(own[i], numbers, x[i]);
        if constexpr (group > 0) {
          for (std::size_t i = kStep * kRows / (4 * kEach); i < (kStep + 1) * kRows / (4 * kEach); ++i) {
            add_product_here(whole[i], before[i], scale);
          }
        }
      });
    });
    const int32x4_t scale = scales.template wide<kGroups - 1>();
    for (std::size_t i = 0; i < kRows; ++i) add_product_here(whole[i], dots[(kGroups - 1) % 2][i], scale);
  }

  /// row_sums: of all blocks of a row, then of the next row, where there are offsets.
  [[gnu::noinline]] static void run(const X& x, const SplitSums<kGroups>* row_sums,
                                    const Block* const (&w)[4], std::size_t outputs, float* y,
                                    std::size_t y_stride) {
    const std::size_t blocks = x.columns / kElements;
    float32x4_t sums[kRows];
    for (float32x4_t& sum : sums) sum = vdupq_n_f32(0.0F);
    Turned turned;
    for (std::size_t b = 0; b < blocks; ++b) {
      const Block* const four[4] = {&w[0][b], &w[1][b], &w[2][b], &w[3][b]};
      ask_for_tiles<Quant>(w[0], blocks, b);
      turned.turn(four);
      const std::int8_t* q[kRows];
      for (std::size_t i = 0; i < kRows; ++i) q[i] = x.q(i) + b * kElements;
      const Groups scales(*four[0], *four[1], *four[2], *four[3]);
      int32x4_t whole[kRows];
      multiply(turned, scales, q, whole);
      const float32x4_t scale = scales_of_four<Quant>(*four[0], *four[1], *four[2], *four[3]);
      if constexpr (Quant::kHasOffsets) {
        const auto offsets = offset_bytes<Quant>(*four[0], *four[1], *four[2], *four[3]);
        const float32x4_t offset = offsets_of_four<Quant>(*four[0], *four[1], *four[2], *four[3]);
        for (std::size_t i = 0; i < kRows; ++i) {
          const int32x4_t sum = offsets.weigh(row_sums[i * blocks + b]);
          const float32x4_t t =
              vfmaq_f32(vmulq_f32(scale, vcvtq_f32_s32(whole[i])), offset, vcvtq_f32_s32(sum));
          sums[i] = vfmaq_n_f32(sums[i], t, x.scales(i)[b]);
        }
      } else {
        for (std::size_t i = 0; i < kRows; ++i) {
          sums[i] = vfmaq_n_f32(sums[i], vmulq_f32(scale, vcvtq_f32_s32(whole[i])), x.scales(i)[b]);
        }
      }
    }
    for (std::size_t i = 0; i < kRows; ++i) store_some(sums[i], outputs, y + i * y_stride);
  }

  /// `rows` rows, at most kRows.
  static void run_some(const X& x, const SplitSums<kGroups>* row_sums, std::size_t rows,
                       const Block* const (&w)[4], std::size_t outputs, float* y, std::size_t y_stride) {
    if (rows == kRows) return run(x, row_sums, w, outputs, y, y_stride);
    if constexpr (kRows > 1) {
      DotFewTile<Quant, kRows - 1>::run_some(x, row_sums, rows, w, outputs, y, y_stride);
    }
  }
};

inline constexpr std::size_t kDotFewRows = 8;  // of a tile

/// A few rows: tiles of them share what is unpacked of weights in the caches alone.
template <class Quant>
void dot_few_multiply(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                      std::size_t n_begin, std::size_t n_end) {
  using Tile = DotFewTile<Quant, kDotFewRows>;
  using Sums = SplitSums<Tile::kGroups>;
  const ActivationsOf<Quant> x(listed, w.columns);
  const std::size_t blocks = w.columns / Tile::kElements;
  Sums* sums = nullptr;
  if constexpr (Quant::kHasOffsets) {
    thread_local Room<Sums> room;
    sums = room.of(m * blocks);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t b = 0; b < blocks; ++b) {
        sums[i * blocks + b] = Sums::of(x.sums(i) + b * (Tile::kElements / x.kSumOf));
      }
    }
  }
  for (std::size_t n = n_begin; n < n_end; n += 4) {
    const FourOutputs<Quant> outputs(w, n, n_end);
    const std::size_t tiles = (m + kDotFewRows - 1) / kDotFewRows;
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      const std::size_t row = m * tile / tiles;
      Tile::run_some(x.from(row), Quant::kHasOffsets ? sums + row * blocks : nullptr,
                     m * (tile + 1) / tiles - row, outputs.rows, outputs.count, y + row * y_stride + n,
                     y_stride);
    }
  }
}

}  // namespace
}  // namespace reprise::gpu
