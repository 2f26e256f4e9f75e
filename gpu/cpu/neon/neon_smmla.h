// The fast GEMM of quantized formats (int8_product.h) with SMMLA, for processors with FEAT_I8MM. Many rows of
// x use panels of weights that are unpacked once (matrix_multiply(), neon_panels.h); few rows use the stored
// blocks (few_rows_multiply()).
//
// SMMLA multiplies two rows of x by two rows of w over eight k and adds to a 2x2 accumulator of int32:
//   {x0 w0, x0 w1, x1 w0, x1 w1}

#pragma once

#include "gpu/cpu/formats/int8_product.h"
#include "gpu/cpu/neon/neon_dot_product.h"
#include "gpu/cpu/neon/neon_ordered.h"
#include "gpu/cpu/neon/neon_panels.h"
#include "gpu/cpu/neon/neon_quants.h"

namespace reprise::gpu {
namespace {

// Layouts: blocks of output pairs and of row pairs, in the order in which a tile is multiplied. Offsets: S
// (int8_product.h) multiplies group offsets, which fit int8, by sums of x, which do not. With sum = 64 h + l,
// h from -64 to 63 and l from 0 to 63, it takes two SMMLA.

/// The halves of two vectors, paired: {a0, b0} and {a1, b1}.
struct EightPairs {
  int8x16_t first;
  int8x16_t second;
};
[[gnu::always_inline]] inline EightPairs pair_eights(int8x16_t a, int8x16_t b) {
  const int64x2_t x = vreinterpretq_s64_s8(a);
  const int64x2_t y = vreinterpretq_s64_s8(b);
  return {vreinterpretq_s8_s64(vzip1q_s64(x, y)), vreinterpretq_s8_s64(vzip2q_s64(x, y))};
}

/// Spreads the values of four outputs to two pairs: {a, b, a, b} and {c, d, c, d}.
[[gnu::always_inline]] inline void spread(float32x4_t four, float32x4_t& first, float32x4_t& second) {
  first = vcombine_f32(vget_low_f32(four), vget_low_f32(four));
  second = vcombine_f32(vget_high_f32(four), vget_high_f32(four));
}

template <class Quant>
struct PanelShape {
  static constexpr std::size_t kElements = Quant::kFormat.block_size;
  static constexpr std::size_t kEights = kElements / 8;
  static constexpr std::size_t kGroups = kElements / Quant::kGroup;
  static constexpr bool kScaled = kHasGroupScales<Quant>;
  static constexpr std::size_t kScales = kScaled ? kGroups : 0;
  // Vectors of eight group offsets; 0 if groups have none.
  static constexpr std::size_t kOffsetEights = kScaled && Quant::kHasOffsets ? kGroups / 8 : 0;
};

inline constexpr std::size_t kRowPairs = 4;
inline constexpr std::size_t kOutputPairs = 2;

template <class Quant>
struct alignas(16) OutputsBlock {
  using Shape = PanelShape<Quant>;
  std::int8_t q[Shape::kEights][kOutputPairs][16];
  std::int32_t scales[Shape::kScales][kOutputPairs][4];               // per group {s0, s1, s0, s1}
  std::int8_t group_offsets[Shape::kOffsetEights][kOutputPairs][16];  // eight groups of each output
  float scale[kOutputPairs][4];                                       // {d0, d1, d0, d1}
  float offset[Quant::kHasOffsets ? kOutputPairs : 0][4];
};

template <class Quant>
struct alignas(16) RowsBlock {
  using Shape = PanelShape<Quant>;
  std::int8_t q[Shape::kEights][kRowPairs][16];
  std::int8_t sums[2 * Shape::kOffsetEights][kRowPairs][16];            // h of eight groups, then l
  float scale[kRowPairs][4];                                            // {s0, s0, s1, s1}
  float sum[Quant::kHasOffsets && !Shape::kScaled ? kRowPairs : 0][4];  // {sum0, sum0, sum1, sum1}
};

inline void store_twice(float a, float b, float* to) {
  vst1q_f32(to, vcombine_f32(vdup_n_f32(a), vdup_n_f32(b)));
}

template <class Quant>
inline void unpack_pair(const typename Quant::Block& a, const typename Quant::Block& b,
                        OutputsBlock<Quant>& to, std::size_t pair) {
  using Shape = PanelShape<Quant>;
  using Neon = NeonQuant<Quant>;
  if constexpr (Shape::kScaled) {
    InterleavedBlocks<Quant, 2, interleave_halves<2>> interleaved;
    interleaved.interleave({&a, &b});
    for_each_index<Shape::kEights>([&](auto index) __attribute__((always_inline)) {
      constexpr std::size_t kIndex = decltype(index)::value;
      vst1q_s8(to.q[kIndex][pair],
               (sixteen_integers<Quant, kIndex / 2>(interleaved.parts[kIndex % 2].block)));
    });
  } else {
    for_each_index<Shape::kElements / 16>([&](auto index) __attribute__((always_inline)) {
      constexpr std::size_t kIndex = decltype(index)::value;
      const EightPairs pairs =
          pair_eights(sixteen_integers<Quant, kIndex>(a), sixteen_integers<Quant, kIndex>(b));
      vst1q_s8(to.q[2 * kIndex][pair], pairs.first);
      vst1q_s8(to.q[2 * kIndex + 1][pair], pairs.second);
    });
  }
  vst1q_f32(to.scale[pair], scales_of_four<Quant>(a, b, a, b));
  if constexpr (Quant::kHasOffsets) vst1q_f32(to.offset[pair], offsets_of_four<Quant>(a, b, a, b));
  if constexpr (Shape::kScaled) {
    const int16x8x2_t x = Neon::scales(a);
    const int16x8x2_t y = Neon::scales(b);
    for (std::size_t eight = 0; eight < Shape::kGroups / 8; ++eight) {
      const int16x8_t zipped[2] = {vzip1q_s16(x.val[eight], y.val[eight]),
                                   vzip2q_s16(x.val[eight], y.val[eight])};
      for (std::size_t half = 0; half < 2; ++half) {
        std::int32_t(*rows)[kOutputPairs][4] = to.scales + eight * 8 + half * 4;
        const int32x4_t low = vmovl_s16(vget_low_s16(zipped[half]));
        const int32x4_t high = vmovl_high_s16(zipped[half]);
        vst1q_s32(rows[0][pair], vcombine_s32(vget_low_s32(low), vget_low_s32(low)));
        vst1q_s32(rows[1][pair], vcombine_s32(vget_high_s32(low), vget_high_s32(low)));
        vst1q_s32(rows[2][pair], vcombine_s32(vget_low_s32(high), vget_low_s32(high)));
        vst1q_s32(rows[3][pair], vcombine_s32(vget_high_s32(high), vget_high_s32(high)));
      }
    }
  }
  if constexpr (Shape::kOffsetEights > 0) {
    const int16x8x2_t x = Neon::offsets(a);
    const int16x8x2_t y = Neon::offsets(b);
    for (std::size_t eight = 0; eight < Shape::kOffsetEights; ++eight) {
      vst1q_s8(to.group_offsets[eight][pair], vcombine_s8(vmovn_s16(x.val[eight]), vmovn_s16(y.val[eight])));
    }
  }
}

/// Interleaves rows `row` and `other` of x, `blocks` blocks from block `first`.
template <class Quant>
inline void interleave_rows(const ActivationsOf<Quant>& x, std::size_t row, std::size_t other,
                            std::size_t first, std::size_t blocks, RowsBlock<Quant>* to, std::size_t pair) {
  using Shape = PanelShape<Quant>;
  constexpr std::size_t kSums = Shape::kElements / ActivationsOf<Quant>::kSumOf;
  const std::int8_t* a = x.q(row) + first * Shape::kElements;
  const std::int8_t* b = x.q(other) + first * Shape::kElements;
  const float* a_scale = x.scales(row) + first;
  const float* b_scale = x.scales(other) + first;
  [[maybe_unused]] const std::int16_t* a_sums = x.sums(row) + first * kSums;
  [[maybe_unused]] const std::int16_t* b_sums = x.sums(other) + first * kSums;
  for (std::size_t block = 0; block < blocks; ++block, ++to) {
    for (std::size_t k = 0; k < Shape::kElements / 16; ++k, a += 16, b += 16) {
      const EightPairs pairs = pair_eights(vld1q_s8(a), vld1q_s8(b));
      vst1q_s8(to->q[2 * k][pair], pairs.first);
      vst1q_s8(to->q[2 * k + 1][pair], pairs.second);
    }
    store_twice(a_scale[block], b_scale[block], to->scale[pair]);
    if constexpr (Quant::kHasOffsets && !Shape::kScaled) {
      store_twice(static_cast<float>(a_sums[block]), static_cast<float>(b_sums[block]), to->sum[pair]);
    }
    for (std::size_t eight = 0; eight < Shape::kOffsetEights; ++eight) {
      const auto load = [&](const std::int16_t* sums) {
        if constexpr (Quant::kGroup == 32) return vpaddq_s16(vld1q_s16(sums), vld1q_s16(sums + 8));
        return vld1q_s16(sums + 8 * eight);
      };
      const int16x8_t left = load(a_sums + block * kSums);
      const int16x8_t right = load(b_sums + block * kSums);
      const int16x8_t mask = vdupq_n_s16(63);
      vst1q_s8(to->sums[2 * eight][pair], vcombine_s8(vshrn_n_s16(left, 6), vshrn_n_s16(right, 6)));
      vst1q_s8(to->sums[2 * eight + 1][pair],
               vcombine_s8(vmovn_s16(vandq_s16(left, mask)), vmovn_s16(vandq_s16(right, mask))));
    }
  }
}

// Many rows of x: a tile of row pairs by output pairs, over blocks of k.
//
// Pipeline: a group of k (a whole block, if it has one group) is up to eight chains of at most four SMMLA.
// The epilogue of a group (its scale, or the float part of a block of 32) is interleaved with the SMMLA of
// the next group, so two sets of accumulators are in registers: of the current group and of the previous one.

template <class Quant, std::size_t kPairs>
struct MatrixTile {
  using Shape = PanelShape<Quant>;
  using Rows = RowsBlock<Quant>;
  using Outputs = OutputsBlock<Quant>;
  using Products = int32x4_t[kPairs][kOutputPairs];
  using Sums = float32x4_t[kPairs][kOutputPairs];
  static constexpr std::size_t kTiles = kPairs * kOutputPairs;
  static constexpr std::size_t kGroupEights = Quant::kGroup / 8;

  /// Calls work(i, j) with constants, so that arrays indexed by them stay in registers.
  template <class Work>
  [[gnu::always_inline]] static void for_each(Work work) {
    for_each_index<kOutputPairs>([&](auto j) __attribute__((always_inline)) {
      for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) { work(i, j); });
    });
  }

  /// Computes the dot products of a group, whose first vector of eight k is `eight`, with the steps of `end`,
  /// the previous group's epilogue, interleaved evenly.
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

  /// The empty epilogue, for the first group.
  struct NoEnd {
    static constexpr std::size_t kSteps = 0;
    template <std::size_t kStep>
    [[gnu::always_inline]] void step() {}
  };

  template <class End>
  [[gnu::always_inline]] static void all_steps(End end) {
    for_each_index<End::kSteps>([&](auto step) __attribute__((always_inline)) { end.template step<step>(); });
  }

  /// The epilogue of one group of several: to = (kIsFirst) or += scales * dots.
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

  /// The epilogue of a block of one group: its float part.
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

  /// Computes I of a block of several groups.
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

  /// Returns float(S) of a block whose groups have offsets.
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

  /// Adds blocks of several groups. Their float parts are rare and so not interleaved.
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

  /// Adds `blocks` >= 1 blocks to the tile. Not inlined, or its arrays would be spilled.
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

/// The Kernel (neon_panels.h) for quantized formats.
template <class Quant>
class MatrixKernel {
 public:
  static constexpr std::size_t kRowPairs = gpu::kRowPairs;
  static constexpr std::size_t kOutputPairs = gpu::kOutputPairs;
  static constexpr std::size_t kElements = PanelShape<Quant>::kElements;
  static constexpr std::size_t kDepth = 2048;
  using Rows = RowsBlock<Quant>;
  using Outputs = OutputsBlock<Quant>;

  MatrixKernel(RowList listed, const WeightView& w) : x_(listed, w.columns), w_(w) {}

  void interleave(std::size_t row, std::size_t other, std::size_t first, std::size_t blocks, Rows* to,
                  std::size_t pair) const {
    interleave_rows<Quant>(x_, row, other, first, blocks, to, pair);
  }
  void unpack(std::size_t n, std::size_t other, std::size_t first, std::size_t blocks, Outputs* to,
              std::size_t pair) const {
    const auto* a = reinterpret_cast<const typename Quant::Block*>(w_.row(n)) + first;
    const auto* b = reinterpret_cast<const typename Quant::Block*>(w_.row(other)) + first;
    const std::size_t row_blocks = w_.columns / kElements;
    for (std::size_t block = 0; block < blocks; ++block) {
      prefetch_bytes<2 * sizeof(*a), kIsLarge<Quant>>(a + 8 * row_blocks + first + 2 * block);
      unpack_pair<Quant>(a[block], b[block], to[block], pair);
    }
  }
  template <std::size_t kPairs>
  static void multiply(const Rows* x, const Outputs* w, std::size_t blocks, TileOutputs to) {
    MatrixTile<Quant, kPairs>::run(x, w, blocks, to);
  }

 private:
  const ActivationsOf<Quant> x_;
  const WeightView& w_;
};

template <class Quant>
void matrix_multiply(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                     std::size_t n_begin, std::size_t n_end) {
  const MatrixKernel<Quant> kernel(listed, w);
  PanelProduct<MatrixKernel<Quant>>(kernel, m, w.columns, y, y_stride).multiply(n_begin, n_end);
}

// Few rows of x: a panel would be used too few times, so weights are read from the stored blocks and paired
// in registers.
//
// A Tile of kPairs row pairs has kOutputs, and
//   run(x, w, blocks, TileOutputs)   x: interleaved blocks of its rows, w: the blocks of each of its outputs

/// The tile for blocks of one group: kPairs row pairs by as many output pairs as give enough independent
/// chains.
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

  /// Computes I of a block.
  [[gnu::always_inline]] static void multiply(const Rows& x, const Block* const (&w)[kOutputs], std::size_t b,
                                              Products& dots) {
    for_each([&](auto i, auto j) __attribute__((always_inline)) { zero_here(dots[i][j]); });
    for_each_index<kElements / 16>([&](auto index) __attribute__((always_inline)) {
      constexpr std::size_t kIndex = decltype(index)::value;
      EightPairs right[kWeightPairs];
      for_each_index<kWeightPairs>([&](auto j) __attribute__((always_inline)) {
        right[j] = pair_eights(sixteen_integers<Quant, kIndex>(w[2 * j][b]),
                               sixteen_integers<Quant, kIndex>(w[2 * j + 1][b]));
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
      const Block* next = w[0] + kOutputs * (blocks + b);  // in the next tile
      if constexpr (kIsLarge<Quant>) {
        prefetch_bytes<kOutputs * sizeof(Block), false>(next);
        if constexpr (kPairs <= 2) prefetch_bytes<kOutputs * sizeof(Block), true>(next + kOutputs * blocks);
      } else {
        prefetch_bytes<kOutputs * sizeof(Block), false>(next + kOutputs * blocks);
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

/// The tile for blocks of several groups: kPairs row pairs by two output pairs. The packed bytes of four
/// blocks are interleaved (fewer than the unpacked ones) and unpacked in registers.
template <class Quant, std::size_t kPairs>
struct FewGroupsTile {
  using Block = typename Quant::Block;
  using Shape = PanelShape<Quant>;
  using Rows = RowsBlock<Quant>;
  using Products = int32x4_t[kPairs][2];
  using Interleaved = InterleavedBlocks<Quant, 4, interleave_halves<4>>;
  using Groups = GroupScales<Quant>;
  static constexpr std::size_t kRows = 2 * kPairs;
  static constexpr std::size_t kOutputs = 4;
  static constexpr std::size_t kElements = Shape::kElements;
  static constexpr std::size_t kGroupEights = Quant::kGroup / 8;

  template <class Work>
  [[gnu::always_inline]] static void for_each_row_pair(Work work) {
    for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) { work(i); });
  }

  /// The epilogue of a group, for output pair kPair: to += scales * dots.
  template <std::size_t kGroup, std::size_t kPair>
  [[gnu::always_inline]] static void end_group(const Groups& scales, const Products& dots, Products& to) {
    const int32x4_t four = scales.template wide<kGroup>();
    const int32x2_t two = kPair == 0 ? vget_low_s32(four) : vget_high_s32(four);
    const int32x4_t scale = vcombine_s32(two, two);
    for_each_row_pair([&](auto i) __attribute__((always_inline)) {
      add_product_here(to[i][kPair], dots[i][kPair], scale);
    });
  }

  /// Computes I of a block. A group's epilogue runs just before the next group zeroes the accumulators, where
  /// register renaming avoids a stall.
  [[gnu::always_inline]] static void multiply(const Rows& x, const Interleaved& w, const Groups& scales,
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
        const int8x16_t right = sixteen_integers<Quant, kEight / 2>(w.parts[2 * kPair + kEight % 2].block);
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

  /// The group offsets of a block, as operands of SMMLA.
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
    Interleaved interleaved;
    for (std::size_t b = 0; b < blocks; ++b, ++x) {
      const Block* const four[4] = {&w[0][b], &w[1][b], &w[2][b], &w[3][b]};
      prefetch_tiles<Quant>(w[0], blocks, b);
      interleaved.interleave(four);
      const Groups groups(*four[0], *four[1], *four[2], *four[3]);
      Products whole;
      multiply(*x, interleaved, groups, whole);
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

/// Computes outputs [n, n + Tile::kOutputs), of which `outputs` exist, of `rows` rows.
template <class Tile, class Quant>
inline void few_rows_tile(const RowsBlock<Quant>* x, std::size_t rows, const WeightView& w, std::size_t n,
                          std::size_t outputs, float* y, std::size_t y_stride) {
  constexpr std::size_t kOutputs = Tile::kOutputs;
  const std::size_t blocks = w.columns / Quant::kFormat.block_size;
  const typename Quant::Block* weights[kOutputs];  // missing outputs repeat the last
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

/// The MultiplyRows for few rows: balanced tiles of at most 2 * kRowPairs rows. Every tile reads the weights
/// again, from the caches.
template <class Quant>
void few_rows_multiply(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                       std::size_t n_begin, std::size_t n_end) {
  thread_local ScratchBuffer<RowsBlock<Quant>> scratch;
  const ActivationsOf<Quant> all(listed, w.columns);
  const std::size_t blocks = w.columns / Quant::kFormat.block_size;
  const std::size_t pairs = (m + 1) / 2;
  const std::size_t tiles = (pairs + kRowPairs - 1) / kRowPairs;
  const std::size_t most = (pairs + tiles - 1) / tiles;  // row pairs per tile
  RowsBlock<Quant>* x = scratch.of(tiles * blocks);
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
