// How weights and rows of x lie for SMMLA (neon_matrix_product.h): blocks of pairs of outputs and of pairs of rows, in the
// order in which a tile is multiplied. Included by the kernel sources, with internal linkage.
//
// Offsets: S (int8_product.h) is a product of offsets, which fit int8, and sums of x, which do not: sum = 64 h + l
// with h from -64 to 63 and l from 0 to 63 makes it two SMMLA.

#pragma once

#include "gpu/cpu/int8_product.h"
#include "gpu/cpu/neon_quants.h"
#include "gpu/cpu/neon_turned_blocks.h"

namespace reprise::gpu {
namespace {

/// Two vectors' eights: {a0, b0} and {a1, b1}.
struct EightPairs {
  int8x16_t first;
  int8x16_t second;
};
[[gnu::always_inline]] inline EightPairs pair_eights(int8x16_t a, int8x16_t b) {
  const int64x2_t x = vreinterpretq_s64_s8(a);
  const int64x2_t y = vreinterpretq_s64_s8(b);
  return {vreinterpretq_s8_s64(vzip1q_s64(x, y)), vreinterpretq_s8_s64(vzip2q_s64(x, y))};
}

/// What four outputs have, for two pairs of them: {a, b, a, b} and {c, d, c, d}.
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
  // Eights of offsets, in blocks whose groups have them.
  static constexpr std::size_t kOffsetEights = kScaled && Quant::kHasOffsets ? kGroups / 8 : 0;
};

inline constexpr std::size_t kRowPairs = 4;
inline constexpr std::size_t kOutputPairs = 2;

/// A block of kOutputPairs pairs of outputs, unpacked.
template <class Quant>
struct alignas(16) OutputsBlock {
  using Shape = PanelShape<Quant>;
  std::int8_t q[Shape::kEights][kOutputPairs][16];
  std::int32_t scales[Shape::kScales][kOutputPairs][4];               // of a group: {s0, s1, s0, s1}
  std::int8_t group_offsets[Shape::kOffsetEights][kOutputPairs][16];  // eight groups of each output
  float scale[kOutputPairs][4];                                       // {d0, d1, d0, d1}
  float offset[Quant::kHasOffsets ? kOutputPairs : 0][4];
};

/// A block of kRowPairs pairs of rows of x.
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
    TurnedBlocks<Quant, 2, turn_halves<2>> turned;
    turned.turn({&a, &b});
    for_each_index<Shape::kEights>([&](auto index) __attribute__((always_inline)) {
      constexpr std::size_t kIndex = decltype(index)::value;
      vst1q_s8(to.q[kIndex][pair], (sixteen_numbers<Quant, kIndex / 2>(turned.parts[kIndex % 2].block)));
    });
  } else {
    for_each_index<Shape::kElements / 16>([&](auto index) __attribute__((always_inline)) {
      constexpr std::size_t kIndex = decltype(index)::value;
      const EightPairs pairs =
          pair_eights(sixteen_numbers<Quant, kIndex>(a), sixteen_numbers<Quant, kIndex>(b));
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

/// Rows `row` and `other` of x, `blocks` blocks from block `first` on.
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

}  // namespace
}  // namespace reprise::gpu
