// A tile of a product with SMMLA: pairs of rows by pairs of outputs, over blocks of k. Included by the kernel sources for
// processors with FEAT_I8MM, with internal linkage.
//
// A group of k (a block, where a block is one group) begins and ends chains of products: eight chains of four at most.
// What ends a group is done among the products of the next one: the scale of a group, or the float part of a block of 32.
// So there are two sets of sums in registers, of the group that is multiplied and of the one before it.

#pragma once

#include "gpu/cpu/neon_matrix_blocks.h"
#include "gpu/cpu/neon_ordered.h"
#include "gpu/cpu/neon_panels.h"

namespace reprise::gpu {
namespace {

/// kPairs pairs of rows by kOutputPairs pairs of outputs: so many 2x2 tiles.
template <class Quant, std::size_t kPairs>
struct MatrixTile {
  using Shape = PanelShape<Quant>;
  using Rows = RowsBlock<Quant>;
  using Outputs = OutputsBlock<Quant>;
  using Products = int32x4_t[kPairs][kOutputPairs];
  using Sums = float32x4_t[kPairs][kOutputPairs];
  static constexpr std::size_t kTiles = kPairs * kOutputPairs;
  static constexpr std::size_t kGroupEights = Quant::kGroup / 8;

  /// work(i, j) with constants: arrays that are indexed by nothing else stay in registers.
  template <class Work>
  [[gnu::always_inline]] static void for_each(Work work) {
    for_each_index<kOutputPairs>([&](auto j) __attribute__((always_inline)) {
      for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) { work(i, j); });
    });
  }

  /// The products of a group, whose first eight k are `eight`, from zero; between them, evenly, the steps of an End.
  template <class End>
  [[gnu::always_inline]] static void multiply(const Rows& x, const Outputs& w, std::size_t eight,
                                              Products& dots, End end) {
    for_each_index<kGroupEights>([&](auto part) __attribute__((always_inline)) {
      int8x16_t left[kPairs];
      for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) {
        load_here(left[i], x.q[eight + part][i]);
      });
      for_each_index<kOutputPairs>([&](auto j) __attribute__((always_inline)) {
        int8x16_t right;
        load_here(right, w.q[eight + part][j]);
        for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) {
          if constexpr (part == 0) zero_here(dots[i][j]);
          multiply_here(dots[i][j], left[i], right);
          constexpr std::size_t kDone = (part * kOutputPairs + j) * kPairs + i;
          constexpr std::size_t kAll = kGroupEights * kTiles;
          constexpr std::size_t kFrom = End::kSteps * kDone / kAll;
          for_each_index<End::kSteps*(kDone + 1) / kAll - kFrom>([&](
              auto step) __attribute__((always_inline)) { end.template step<kFrom + step>(); });
        });
      });
    });
  }

  /// Nothing to end.
  struct NoEnd {
    static constexpr std::size_t kSteps = 0;
    template <std::size_t kStep>
    [[gnu::always_inline]] void step() {}
  };

  template <class End>
  [[gnu::always_inline]] static void all_steps(End end) {
    for_each_index<End::kSteps>([&](auto step) __attribute__((always_inline)) { end.template step<step>(); });
  }

  /// Ends a group of several: to (+)= its scales * its products.
  template <bool kIsFirst>
  struct GroupEnd {
    static constexpr std::size_t kSteps = kTiles;
    const Outputs& w;
    std::size_t group;
    const Products& dots;
    Products& to;
    int32x4_t scales = {};

    template <std::size_t kStep>
    [[gnu::always_inline]] void step() {
      constexpr std::size_t i = kStep % kPairs;
      constexpr std::size_t j = kStep / kPairs;
      if constexpr (i == 0) load_here(scales, w.scales[group][j]);
      if constexpr (kIsFirst) {
        product_here(to[i][j], dots[i][j], scales);
      } else {
        add_product_here(to[i][j], dots[i][j], scales);
      }
    }
  };

  /// Ends a block of one group: its float part.
  struct BlockEnd {
    static constexpr std::size_t kStages = Quant::kHasOffsets ? 4 : 3;
    static constexpr std::size_t kSteps = kTiles * kStages;
    const Rows& x;
    const Outputs& w;
    const Products& dots;
    Sums& sums;
    Sums& t;
    float32x4_t factor = {};

    template <std::size_t kStep>
    [[gnu::always_inline]] void step() {
      constexpr std::size_t kStage = kStep / kTiles;
      constexpr std::size_t kIndex = kStep % kTiles;
      if constexpr (kStage + 1 < kStages) {
        constexpr std::size_t i = kIndex % kPairs;
        constexpr std::size_t j = kIndex / kPairs;
        if constexpr (kStage == 0) {
          to_float_here(dots[i][j], t[i][j]);
        } else if constexpr (kStage == 1) {
          if constexpr (i == 0) load_here(factor, w.scale[j]);
          scale_here(t[i][j], factor);
        } else {
          if constexpr (i == 0) load_here(factor, w.offset[j]);
          float32x4_t sum;
          load_here(sum, x.sum[i]);
          add_product_here(t[i][j], factor, sum);
        }
      } else {
        constexpr std::size_t i = kIndex / kOutputPairs;
        constexpr std::size_t j = kIndex % kOutputPairs;
        if constexpr (j == 0) load_here(factor, x.scale[i]);
        add_product_here(sums[i][j], factor, t[i][j]);
      }
    }
  };

  /// I of a block of several groups.
  [[gnu::always_inline]] static void products(const Rows& x, const Outputs& w, Products& to) {
    static_assert(Shape::kGroups % 2 == 0);
    Products even;
    Products odd;
    multiply(x, w, 0, even, NoEnd());
    multiply(x, w, kGroupEights, odd, GroupEnd<true>{w, 0, even, to});
    for (std::size_t g = 2; g < Shape::kGroups; g += 2) {
      multiply(x, w, g * kGroupEights, even, GroupEnd<false>{w, g - 1, odd, to});
      multiply(x, w, (g + 1) * kGroupEights, odd, GroupEnd<false>{w, g, even, to});
    }
    all_steps(GroupEnd<false>{w, Shape::kGroups - 1, odd, to});
  }

  /// float(S) of a block whose groups have offsets.
  [[gnu::always_inline]] static float32x4_t offsets(const Rows& x, const Outputs& w, std::size_t i,
                                                    std::size_t j) {
    int32x4_t high = vdupq_n_s32(0);
    for (std::size_t eight = 0; eight < Shape::kOffsetEights; ++eight) {
      high = vmmlaq_s32(high, vld1q_s8(x.sums[2 * eight][i]), vld1q_s8(w.group_offsets[eight][j]));
    }
    int32x4_t all = vshlq_n_s32(high, 6);
    for (std::size_t eight = 0; eight < Shape::kOffsetEights; ++eight) {
      all = vmmlaq_s32(all, vld1q_s8(x.sums[2 * eight + 1][i]), vld1q_s8(w.group_offsets[eight][j]));
    }
    return vcvtq_f32_s32(all);
  }

  /// Blocks of several groups. Their float parts are few: no need to hide them.
  [[gnu::always_inline]] static void add_large_blocks(const Rows* x, const Outputs* w, std::size_t blocks,
                                                      Sums& sums) {
    for (std::size_t b = 0; b < blocks; ++b, ++x, ++w) {
      Products whole;
      products(*x, *w, whole);
      for_each([&](auto i, auto j) __attribute__((always_inline)) {
        float32x4_t t = vmulq_f32(vld1q_f32(w->scale[j]), vcvtq_f32_s32(whole[i][j]));
        if constexpr (Shape::kOffsetEights > 0) {
          t = vfmaq_f32(t, vld1q_f32(w->offset[j]), offsets(*x, *w, i, j));
        }
        sums[i][j] = vfmaq_f32(sums[i][j], vld1q_f32(x->scale[i]), t);
      });
    }
  }

  /// Blocks of one group.
  [[gnu::always_inline]] static void add_small_blocks(const Rows* x, const Outputs* w, std::size_t blocks,
                                                      Sums& sums) {
    Products even;
    Products odd;
    Sums t;
    const auto end_of = [&](std::size_t block, const Products& dots) __attribute__((always_inline)) {
      return BlockEnd{x[block], w[block], dots, sums, t};
    };
    multiply(*x, *w, 0, even, NoEnd());
    for (; blocks > 2; blocks -= 2, x += 2, w += 2) {
      multiply(x[1], w[1], 0, odd, end_of(0, even));
      multiply(x[2], w[2], 0, even, end_of(1, odd));
    }
    if (blocks == 2) {
      multiply(x[1], w[1], 0, odd, end_of(0, even));
      all_steps(end_of(1, odd));
    } else {
      all_steps(end_of(0, even));
    }
  }

  /// Adds `blocks` blocks, one at least, to the sums. A function of its own: inlined into a larger one, its arrays leave
  /// the registers.
  [[gnu::noinline]] static void run(const Rows* x, const Outputs* w, std::size_t blocks, TileOutputs to) {
    Sums sums;
    for_each([&](auto i, auto j) __attribute__((always_inline)) { sums[i][j] = to.load(i, j); });
    if constexpr (Shape::kScaled) {
      add_large_blocks(x, w, blocks, sums);
    } else {
      add_small_blocks(x, w, blocks, sums);
    }
    for_each([&](auto i, auto j) __attribute__((always_inline)) { to.store(i, j, sums[i][j]); });
  }
};

}  // namespace
}  // namespace reprise::gpu
