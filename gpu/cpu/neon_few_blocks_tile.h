// A tile of a product with SMMLA of few rows (neon_few_rows.h), of formats in blocks of one group. Included by the kernel
// sources for processors with FEAT_I8MM, with internal linkage.

#pragma once

#include "gpu/cpu/neon_matrix_blocks.h"
#include "gpu/cpu/neon_ordered.h"
#include "gpu/cpu/neon_panels.h"

namespace reprise::gpu {
namespace {

/// kPairs pairs of rows, by pairs of outputs: so many that there are enough chains of products.
template <class Quant, std::size_t kPairs>
struct FewBlocksTile {
  static constexpr std::size_t kWeightPairs = kPairs <= 2 ? 4 : 2;
  static constexpr std::size_t kRows = 2 * kPairs;
  static constexpr std::size_t kOutputs = 2 * kWeightPairs;
  static constexpr std::size_t kElements = Quant::kFormat.block_size;
  using Block = typename Quant::Block;
  using Rows = RowsBlock<Quant>;
  using Products = int32x4_t[kPairs][kWeightPairs];
  using Sums = float32x4_t[kPairs][kWeightPairs];

  template <class Work>
  [[gnu::always_inline]] static void for_each(Work work) {
    for_each_index<kWeightPairs>([&](auto j) __attribute__((always_inline)) {
      for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) { work(i, j); });
    });
  }

  /// I of a block.
  [[gnu::always_inline]] static void multiply(const Rows& x, const Block* const (&w)[kOutputs], std::size_t b,
                                              Products& dots) {
    for_each([&](auto i, auto j) __attribute__((always_inline)) { zero_here(dots[i][j]); });
    for_each_index<kElements / 16>([&](auto index) __attribute__((always_inline)) {
      constexpr std::size_t kIndex = decltype(index)::value;
      EightPairs right[kWeightPairs];
      for_each_index<kWeightPairs>([&](auto j) __attribute__((always_inline)) {
        right[j] = pair_eights(sixteen_numbers<Quant, kIndex>(w[2 * j][b]),
                               sixteen_numbers<Quant, kIndex>(w[2 * j + 1][b]));
      });
      for_each_index<2>([&](auto half) __attribute__((always_inline)) {
        int8x16_t left[kPairs];
        for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) {
          load_here(left[i], x.q[2 * kIndex + half][i]);
        });
        for_each([&](auto i, auto j) __attribute__((always_inline)) {
          multiply_here(dots[i][j], left[i], half == 0 ? right[j].first : right[j].second);
        });
      });
    });
  }

  [[gnu::noinline]] static void run(const Rows* x, const Block* const (&w)[kOutputs], std::size_t blocks,
                                    TileOutputs to) {
    Sums sums;
    for_each([&](auto i, auto j) __attribute__((always_inline)) { sums[i][j] = vdupq_n_f32(0.0F); });
    for (std::size_t b = 0; b < blocks; ++b) {
      const Block* next = w[0] + kOutputs * (blocks + b);  // of the next tile
      if constexpr (kIsLarge<Quant>) {
        ask_ahead<kOutputs * sizeof(Block), false>(next);
        if constexpr (kPairs <= 2) ask_ahead<kOutputs * sizeof(Block), true>(next + kOutputs * blocks);
      } else {
        ask_ahead<kOutputs * sizeof(Block), false>(next + kOutputs * blocks);
      }
      Products dots;
      multiply(x[b], w, b, dots);
      float32x4_t scales[kWeightPairs];
      [[maybe_unused]] float32x4_t offsets[kWeightPairs];
      for_each_index<kWeightPairs / 2>([&](auto half) __attribute__((always_inline)) {
        const Block& first = w[4 * half][b];
        const Block& second = w[4 * half + 1][b];
        const Block& third = w[4 * half + 2][b];
        const Block& fourth = w[4 * half + 3][b];
        spread(scales_of_four<Quant>(first, second, third, fourth), scales[2 * half], scales[2 * half + 1]);
        if constexpr (Quant::kHasOffsets) {
          spread(offsets_of_four<Quant>(first, second, third, fourth), offsets[2 * half],
                 offsets[2 * half + 1]);
        }
      });
      for_each([&](auto i, auto j) __attribute__((always_inline)) {
        float32x4_t t = vmulq_f32(scales[j], vcvtq_f32_s32(dots[i][j]));
        if constexpr (Quant::kHasOffsets) t = vfmaq_f32(t, offsets[j], vld1q_f32(x[b].sum[i]));
        sums[i][j] = vfmaq_f32(sums[i][j], vld1q_f32(x[b].scale[i]), t);
      });
    }
    for_each([&](auto i, auto j) __attribute__((always_inline)) { to.store(i, j, sums[i][j]); });
  }
};

}  // namespace
}  // namespace reprise::gpu
