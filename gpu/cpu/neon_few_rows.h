// The fast product of quantised formats (int8_product.h) with SMMLA for few rows of x: weights come from the file's blocks
// and are paired in registers, where a panel in memory would be used too few times. For formats in blocks of one group.
// Included by the kernel sources for processors with FEAT_I8MM, with internal linkage.

#pragma once

#include "gpu/cpu/neon_matrix_blocks.h"
#include "gpu/cpu/neon_ordered.h"
#include "gpu/cpu/neon_panels.h"

namespace reprise::gpu {
namespace {

/// kPairs pairs of rows, by pairs of outputs: so many that there are enough chains of products.
template <class Quant, std::size_t kPairs>
struct FewRowsTile {
  static constexpr std::size_t kWeightPairs = kPairs <= 2 ? 4 : 2;
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

  /// What blocks of four outputs have in common, for two pairs of them: {a, b, a, b} and {c, d, c, d}.
  [[gnu::always_inline]] static void spread(float32x4_t four, float32x4_t& first, float32x4_t& second) {
    first = vcombine_f32(vget_low_f32(four), vget_low_f32(four));
    second = vcombine_f32(vget_high_f32(four), vget_high_f32(four));
  }

  [[gnu::noinline]] static void run(const Rows* x, const Block* const (&w)[kOutputs], std::size_t blocks,
                                    TileOutputs to) {
    Sums sums;
    for_each([&](auto i, auto j) __attribute__((always_inline)) { sums[i][j] = vdupq_n_f32(0.0F); });
    for (std::size_t b = 0; b < blocks; ++b) {
      ask_ahead<kOutputs * sizeof(Block), kIsLarge<Quant>>(w[0] + 2 * kOutputs * blocks + kOutputs * b);
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

  /// All outputs of up to 2 kPairs rows.
  static void multiply_all(const Rows* x, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                           std::size_t n_begin, std::size_t n_end) {
    const std::size_t blocks = w.columns / kElements;
    for (std::size_t n = n_begin; n < n_end; n += kOutputs) {
      const std::size_t outputs = std::min(kOutputs, n_end - n);
      const Block* rows[kOutputs];  // those that do not exist repeat the last one
      for (std::size_t j = 0; j < kOutputs; ++j) {
        rows[j] = reinterpret_cast<const Block*>(w.row(n + std::min(j, outputs - 1)));
      }
      if (m == 2 * kPairs && outputs == kOutputs) {
        run(x, rows, blocks, {y + n, y_stride, false});
      } else {
        float apart[2 * kPairs][kOutputs];
        run(x, rows, blocks, {apart[0], kOutputs, false});
        for (std::size_t i = 0; i < m; ++i) std::copy_n(apart[i], outputs, y + i * y_stride + n);
      }
    }
  }
};

/// m: 2 * kRowPairs at most.
template <class Quant>
void few_rows_multiply(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                       std::size_t n_begin, std::size_t n_end) {
  thread_local Room<RowsBlock<Quant>> room;
  const ActivationsOf<Quant> all(listed, w.columns);
  const std::size_t blocks = w.columns / Quant::kFormat.block_size;
  RowsBlock<Quant>* x = room.of(blocks);
  for (std::size_t pair = 0; 2 * pair < m; ++pair) {
    interleave_rows<Quant>(all, 2 * pair, std::min(2 * pair + 1, m - 1), 0, blocks, x, pair);
  }
  for_each_index<kRowPairs>([&](auto pair) __attribute__((always_inline)) {
    if ((m + 1) / 2 != pair + 1) return;
    FewRowsTile<Quant, pair + 1>::multiply_all(x, m, w, y, y_stride, n_begin, n_end);
  });
}

}  // namespace
}  // namespace reprise::gpu
