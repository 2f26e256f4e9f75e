// A tile of a product with SMMLA of few rows (neon_few_rows.h), of formats whose blocks have several groups: the packed bytes of
// four blocks are turned, fewer than their numbers are, and unpacked on their way to the products. Included by the kernel
// sources for processors with FEAT_I8MM, with internal linkage.

#pragma once

#include "gpu/cpu/neon_dot_product.h"
#include "gpu/cpu/neon_matrix_blocks.h"
#include "gpu/cpu/neon_ordered.h"
#include "gpu/cpu/neon_panels.h"
#include "gpu/cpu/neon_turned_blocks.h"

namespace reprise::gpu {
namespace {

/// kPairs pairs of rows by two pairs of outputs.
template <class Quant, std::size_t kPairs>
struct FewGroupsTile {
  using Block = typename Quant::Block;
  using Shape = PanelShape<Quant>;
  using Rows = RowsBlock<Quant>;
  using Products = int32x4_t[kPairs][2];
  using Turned = TurnedBlocks<Quant, 4, turn_halves<4>>;
  using Groups = GroupScales<Quant>;
  static constexpr std::size_t kRows = 2 * kPairs;
  static constexpr std::size_t kOutputs = 4;
  static constexpr std::size_t kElements = Shape::kElements;
  static constexpr std::size_t kGroupEights = Quant::kGroup / 8;

  template <class Work>
  [[gnu::always_inline]] static void for_each_row_pair(Work work) {
    for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) { work(i); });
  }

  /// Ends a group: to += its scales * dots, for pair kPair of outputs.
  template <std::size_t kGroup, std::size_t kPair>
  [[gnu::always_inline]] static void end_group(const Groups& scales, const Products& dots, Products& to) {
    const int32x4_t four = scales.template wide<kGroup>();
    const int32x2_t two = kPair == 0 ? vget_low_s32(four) : vget_high_s32(four);
    const int32x4_t scale = vcombine_s32(two, two);
    for_each_row_pair([&](auto i) __attribute__((always_inline)) {
      add_product_here(to[i][kPair], dots[i][kPair], scale);
    });
  }

  /// I of a block. A group ends where the next one begins: its sums' registers are named anew there.
  [[gnu::always_inline]] static void multiply(const Rows& x, const Turned& w, const Groups& scales,
                                              Products& to) {
    Products dots;
    for_each_row_pair([&](auto i) __attribute__((always_inline)) {
      zero_here(to[i][0]);
      zero_here(to[i][1]);
    });
    for_each_index<Shape::kEights>([&](auto eight) __attribute__((always_inline)) {
      constexpr std::size_t kEight = decltype(eight)::value;
      int8x16_t left[kPairs];
      for_each_row_pair([&](auto i) __attribute__((always_inline)) { load_here(left[i], x.q[kEight][i]); });
      for_each_index<2>([&](auto pair) __attribute__((always_inline)) {
        constexpr std::size_t kPair = decltype(pair)::value;
        const int8x16_t right = sixteen_numbers<Quant, kEight / 2>(w.parts[2 * kPair + kEight % 2].block);
        if constexpr (kEight % kGroupEights == 0) {
          if constexpr (kEight > 0) end_group<kEight / kGroupEights - 1, kPair>(scales, dots, to);
          for_each_row_pair([&](auto i) __attribute__((always_inline)) { zero_here(dots[i][kPair]); });
        }
        for_each_row_pair([&](auto i) __attribute__((always_inline)) {
          multiply_here(dots[i][kPair], left[i], right);
        });
      });
    });
    end_group<Shape::kGroups - 1, 0>(scales, dots, to);
    end_group<Shape::kGroups - 1, 1>(scales, dots, to);
  }

  /// Offsets of a block's groups, as SMMLA takes them.
  struct Offsets {
    int8x16_t bytes[2][Shape::kOffsetEights];
    float32x4_t scale[2];

    [[gnu::always_inline]] explicit Offsets(const Block* const (&four)[4]) {
      spread(offsets_of_four<Quant>(*four[0], *four[1], *four[2], *four[3]), scale[0], scale[1]);
      for (std::size_t pair = 0; pair < 2; ++pair) {
        const int16x8x2_t a = NeonQuant<Quant>::offsets(*four[2 * pair]);
        const int16x8x2_t b = NeonQuant<Quant>::offsets(*four[2 * pair + 1]);
        for (std::size_t eight = 0; eight < Shape::kOffsetEights; ++eight) {
          bytes[pair][eight] = vcombine_s8(vmovn_s16(a.val[eight]), vmovn_s16(b.val[eight]));
        }
      }
    }
    /// t + float(S) * scale.
    [[gnu::always_inline]] float32x4_t add_to(float32x4_t t, const Rows& x, std::size_t i,
                                              std::size_t pair) const {
      int32x4_t sum = vdupq_n_s32(0);
      for (std::size_t eight = 0; eight < Shape::kOffsetEights; ++eight) {
        sum = vmmlaq_s32(sum, vld1q_s8(x.sums[2 * eight][i]), bytes[pair][eight]);
      }
      sum = vshlq_n_s32(sum, 6);
      for (std::size_t eight = 0; eight < Shape::kOffsetEights; ++eight) {
        sum = vmmlaq_s32(sum, vld1q_s8(x.sums[2 * eight + 1][i]), bytes[pair][eight]);
      }
      return vfmaq_f32(t, scale[pair], vcvtq_f32_s32(sum));
    }
  };
  struct NoOffsets {
    explicit NoOffsets(const Block* const (&)[4]) {}
    [[gnu::always_inline]] float32x4_t add_to(float32x4_t t, const Rows&, std::size_t, std::size_t) const {
      return t;
    }
  };

  [[gnu::noinline]] static void run(const Rows* x, const Block* const (&w)[kOutputs], std::size_t blocks,
                                    TileOutputs to) {
    float32x4_t sums[kPairs][2] = {};
    Turned turned;
    for (std::size_t b = 0; b < blocks; ++b, ++x) {
      const Block* const four[4] = {&w[0][b], &w[1][b], &w[2][b], &w[3][b]};
      ask_for_tiles<Quant>(w[0], blocks, b);
      turned.turn(four);
      const Groups groups(*four[0], *four[1], *four[2], *four[3]);
      Products whole;
      multiply(*x, turned, groups, whole);
      float32x4_t scales[2];
      spread(scales_of_four<Quant>(*four[0], *four[1], *four[2], *four[3]), scales[0], scales[1]);
      const std::conditional_t<Quant::kHasOffsets, Offsets, NoOffsets> offsets(four);
      for_each_row_pair([&](auto i) __attribute__((always_inline)) {
        const float32x4_t scale = vld1q_f32(x->scale[i]);
        for_each_index<2>([&](auto pair) __attribute__((always_inline)) {
          const float32x4_t t = vmulq_f32(scales[pair], vcvtq_f32_s32(whole[i][pair]));
          sums[i][pair] = vfmaq_f32(sums[i][pair], scale, offsets.add_to(t, *x, i, pair));
        });
      });
    }
    for_each_row_pair([&](auto i) __attribute__((always_inline)) {
      to.store(i, 0, sums[i][0]);
      to.store(i, 1, sums[i][1]);
    });
  }
};

}  // namespace
}  // namespace reprise::gpu
