// The fast product of quantised formats (int8_product.h) with SMMLA, for several rows of x: weights are unpacked once,
// a panel of outputs at a time, and multiplied by all rows. Included by the kernel sources for processors with
// FEAT_I8MM, with internal linkage.
//
// SMMLA multiplies two rows of x by two rows of w over eight k and adds to a 2x2 tile of int32 sums:
//   {x0 w0, x0 w1, x1 w0, x1 w1}
// So weights are unpacked in pairs of outputs, and x is interleaved in pairs of rows. The panel stays in the second
// cache while x passes through the first, tile by tile.
//
// Offsets: S (int8_product.h) is a product of offsets, which fit int8, and sums of x, which do not: sum = 64 h + l
// with h from -64 to 63 and l from 0 to 63 makes it two SMMLA.

#pragma once

#include <vector>

#include "gpu/cpu/int8_product.h"
#include "gpu/cpu/neon_quants.h"

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

/// A block of two outputs, unpacked.
template <class Quant>
struct alignas(16) PairBlock {
  using Shape = PanelShape<Quant>;
  std::int8_t q[Shape::kEights][16];
  std::int32_t scales[Shape::kScales + 1][4];  // of a group: {s0, s1, s0, s1}; one more than used
  std::int8_t group_offsets[Shape::kOffsetEights + 1][16];  // eight groups of each output
  float scale[4];                                           // {d0, d1, d0, d1}
  float offset[4];
};

/// A block of two rows of x.
template <class Quant>
struct alignas(16) RowPairBlock {
  using Shape = PanelShape<Quant>;
  std::int8_t q[Shape::kEights][16];
  std::int8_t sums[2 * Shape::kOffsetEights + 1][16];  // h of eight groups, then l
  float scale[4];                                      // {s0, s0, s1, s1}
  float sum[4];                                        // {sum0, sum0, sum1, sum1}, in blocks of one group
};

inline void store_twice(float a, float b, float* to) {
  vst1q_f32(to, vcombine_f32(vdup_n_f32(a), vdup_n_f32(b)));
}

template <class Quant>
inline void unpack_pair(const typename Quant::Block& a, const typename Quant::Block& b,
                        PairBlock<Quant>& to) {
  using Shape = PanelShape<Quant>;
  using Neon = NeonQuant<Quant>;
  for_each_index<Shape::kElements / 16>([&](auto index) __attribute__((always_inline)) {
    constexpr std::size_t kIndex = decltype(index)::value;
    const EightPairs pairs =
        pair_eights(sixteen_numbers<Quant, kIndex>(a), sixteen_numbers<Quant, kIndex>(b));
    vst1q_s8(to.q[2 * kIndex], pairs.first);
    vst1q_s8(to.q[2 * kIndex + 1], pairs.second);
  });
  vst1q_f32(to.scale, scales_of_four<Quant>(a, b, a, b));
  if constexpr (Quant::kHasOffsets) vst1q_f32(to.offset, offsets_of_four<Quant>(a, b, a, b));
  if constexpr (Shape::kScaled) {
    const int16x8x2_t x = Neon::scales(a);
    const int16x8x2_t y = Neon::scales(b);
    for (std::size_t eight = 0; eight < Shape::kGroups / 8; ++eight) {
      const int16x8_t zipped[2] = {vzip1q_s16(x.val[eight], y.val[eight]),
                                   vzip2q_s16(x.val[eight], y.val[eight])};
      for (std::size_t half = 0; half < 2; ++half) {
        std::int32_t(*rows)[4] = to.scales + eight * 8 + half * 4;
        const int32x4_t low = vmovl_s16(vget_low_s16(zipped[half]));
        const int32x4_t high = vmovl_high_s16(zipped[half]);
        vst1q_s32(rows[0], vcombine_s32(vget_low_s32(low), vget_low_s32(low)));
        vst1q_s32(rows[1], vcombine_s32(vget_high_s32(low), vget_high_s32(low)));
        vst1q_s32(rows[2], vcombine_s32(vget_low_s32(high), vget_low_s32(high)));
        vst1q_s32(rows[3], vcombine_s32(vget_high_s32(high), vget_high_s32(high)));
      }
    }
  }
  if constexpr (Shape::kOffsetEights > 0) {
    const int16x8x2_t x = Neon::offsets(a);
    const int16x8x2_t y = Neon::offsets(b);
    for (std::size_t eight = 0; eight < Shape::kOffsetEights; ++eight) {
      vst1q_s8(to.group_offsets[eight], vcombine_s8(vmovn_s16(x.val[eight]), vmovn_s16(y.val[eight])));
    }
  }
}

/// Rows `row` and `other` of x, block b.
template <class Quant>
inline void interleave_rows(const ActivationsOf<Quant>& x, std::size_t row, std::size_t other, std::size_t b,
                            RowPairBlock<Quant>& to) {
  using Shape = PanelShape<Quant>;
  using X = ActivationsOf<Quant>;
  const std::int8_t* first = x.q(row) + b * Shape::kElements;
  const std::int8_t* second = x.q(other) + b * Shape::kElements;
  for (std::size_t k = 0; k < Shape::kElements / 16; ++k) {
    const EightPairs pairs = pair_eights(vld1q_s8(first + 16 * k), vld1q_s8(second + 16 * k));
    vst1q_s8(to.q[2 * k], pairs.first);
    vst1q_s8(to.q[2 * k + 1], pairs.second);
  }
  store_twice(x.scales(row)[b], x.scales(other)[b], to.scale);
  if constexpr (!Quant::kHasOffsets) return;
  const std::int16_t* first_sums = x.sums(row) + b * Shape::kElements / X::kSumOf;
  const std::int16_t* second_sums = x.sums(other) + b * Shape::kElements / X::kSumOf;
  if constexpr (Shape::kOffsetEights == 0) {
    store_twice(static_cast<float>(first_sums[0]), static_cast<float>(second_sums[0]), to.sum);
  } else {
    for (std::size_t eight = 0; eight < Shape::kOffsetEights; ++eight) {
      const auto load = [&](const std::int16_t* sums) {
        if constexpr (Quant::kGroup == 32) return vpaddq_s16(vld1q_s16(sums), vld1q_s16(sums + 8));
        return vld1q_s16(sums + 8 * eight);
      };
      const int16x8_t a = load(first_sums);
      const int16x8_t c = load(second_sums);
      const int16x8_t mask = vdupq_n_s16(63);
      vst1q_s8(to.sums[2 * eight], vcombine_s8(vshrn_n_s16(a, 6), vshrn_n_s16(c, 6)));
      vst1q_s8(to.sums[2 * eight + 1],
               vcombine_s8(vmovn_s16(vandq_s16(a, mask)), vmovn_s16(vandq_s16(c, mask))));
    }
  }
}

/// kRowPairs pairs of rows by kOutputPairs pairs of outputs. Pairs of x stand x_stride blocks apart, those of w
/// w_stride. to: the 2x2 tiles.
template <class Quant, std::size_t kRowPairs, std::size_t kOutputPairs>
inline void matrix_tile(const RowPairBlock<Quant>* x, std::size_t x_stride, const PairBlock<Quant>* w,
                        std::size_t w_stride, std::size_t blocks,
                        float32x4_t (&to)[kRowPairs][kOutputPairs]) {
  using Shape = PanelShape<Quant>;
  for (auto& line : to) {
    for (float32x4_t& sum : line) sum = vdupq_n_f32(0.0F);
  }
  const auto multiply =
      [](const RowPairBlock<Quant>* a, std::size_t a_stride, const PairBlock<Quant>* c, std::size_t c_stride,
         std::size_t eight, int32x4_t(&dots)[kRowPairs][kOutputPairs]) __attribute__((always_inline)) {
    int8x16_t left[kRowPairs];
    for (std::size_t i = 0; i < kRowPairs; ++i) left[i] = vld1q_s8(a[i * a_stride].q[eight]);
    for (std::size_t j = 0; j < kOutputPairs; ++j) {
      const int8x16_t right = vld1q_s8(c[j * c_stride].q[eight]);
      for (std::size_t i = 0; i < kRowPairs; ++i) dots[i][j] = vmmlaq_s32(dots[i][j], left[i], right);
    }
  };
  for (std::size_t b = 0; b < blocks; ++b, ++x, ++w) {
    int32x4_t products[kRowPairs][kOutputPairs];
    for (auto& line : products) {
      for (int32x4_t& sum : line) sum = vdupq_n_s32(0);
    }
    if constexpr (Shape::kScaled) {
      for (std::size_t g = 0; g < Shape::kGroups; ++g) {
        int32x4_t dots[kRowPairs][kOutputPairs];
        for (auto& line : dots) {
          for (int32x4_t& sum : line) sum = vdupq_n_s32(0);
        }
        for_each_index<Quant::kGroup / 8>([&](auto part) __attribute__((always_inline)) {
          multiply(x, x_stride, w, w_stride, g * (Quant::kGroup / 8) + decltype(part)::value, dots);
        });
        for (std::size_t j = 0; j < kOutputPairs; ++j) {
          const int32x4_t scale = vld1q_s32(w[j * w_stride].scales[g]);
          for (std::size_t i = 0; i < kRowPairs; ++i)
            products[i][j] = vmlaq_s32(products[i][j], dots[i][j], scale);
        }
      }
    } else {
      for_each_index<Shape::kEights>([&](auto eight) __attribute__((always_inline)) {
        multiply(x, x_stride, w, w_stride, decltype(eight)::value, products);
      });
    }
    for (std::size_t j = 0; j < kOutputPairs; ++j) {
      const PairBlock<Quant>& weight = w[j * w_stride];
      const float32x4_t scale = vld1q_f32(weight.scale);
      for (std::size_t i = 0; i < kRowPairs; ++i) {
        const RowPairBlock<Quant>& row = x[i * x_stride];
        float32x4_t t = vmulq_f32(scale, vcvtq_f32_s32(products[i][j]));
        if constexpr (Shape::kOffsetEights > 0) {
          int32x4_t high = vdupq_n_s32(0);
          int32x4_t low = vdupq_n_s32(0);
          for (std::size_t eight = 0; eight < Shape::kOffsetEights; ++eight) {
            const int8x16_t offsets = vld1q_s8(weight.group_offsets[eight]);
            high = vmmlaq_s32(high, vld1q_s8(row.sums[2 * eight]), offsets);
            low = vmmlaq_s32(low, vld1q_s8(row.sums[2 * eight + 1]), offsets);
          }
          const int32x4_t sum = vaddq_s32(vshlq_n_s32(high, 6), low);
          t = vfmaq_f32(t, vld1q_f32(weight.offset), vcvtq_f32_s32(sum));
        } else if constexpr (Quant::kHasOffsets) {
          t = vfmaq_f32(t, vld1q_f32(weight.offset), vld1q_f32(row.sum));
        }
        to[i][j] = vfmaq_f32(to[i][j], vld1q_f32(row.scale), t);
      }
    }
  }
}

/// Room for a panel or for rows of x, kept from call to call by each thread.
template <class Block>
class Room {
 public:
  Block* of(std::size_t count) {
    if (blocks_.size() < count) blocks_ = std::vector<Block>(count);
    return blocks_.data();
  }

 private:
  std::vector<Block> blocks_;
};

template <class Quant>
class MatrixProduct {
 public:
  static constexpr std::size_t kRowPairs = 4;
  static constexpr std::size_t kOutputPairs = 2;

  MatrixProduct(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride)
      : x_(listed, w.columns),
        m_(m),
        w_(w),
        y_(y),
        y_stride_(y_stride),
        blocks_(w.columns / PanelShape<Quant>::kElements) {}

  /// Outputs [begin, end), in panels of `size`.
  void panels(std::size_t begin, std::size_t end, std::size_t size) {
    thread_local Room<PairBlock<Quant>> panel_room;
    thread_local Room<RowPairBlock<Quant>> row_room;
    constexpr std::size_t kTileRows = 2 * kRowPairs;
    // Few rows are interleaved once for all panels, many for each, tile by tile.
    const std::size_t kept = m_ <= kRowsKept ? (m_ + kTileRows - 1) / kTileRows : 1;
    RowPairBlock<Quant>* rows = row_room.of(kept * kRowPairs * blocks_);
    PairBlock<Quant>* panel = panel_room.of((size + 2 * kOutputPairs) / 2 * blocks_);
    for (std::size_t n = begin; n < end; n += size) {
      const std::size_t n_end = std::min(end, n + size);
      const std::size_t pairs = unpack_panel(n, n_end, panel);
      for (std::size_t row = 0; row < m_; row += kTileRows) {
        const std::size_t count = std::min(m_ - row, kTileRows);
        RowPairBlock<Quant>* tile = rows + row / kTileRows % kept * kRowPairs * blocks_;
        if (n == begin || m_ > kRowsKept) interleave(row, count, tile);
        for (std::size_t pair = 0; pair < pairs; pair += kOutputPairs) {
          tiles<kRowPairs>(tile, row, count, panel + pair * blocks_, n + 2 * pair, n_end);
        }
      }
    }
  }

 private:
  static constexpr std::size_t kRowsKept = 64;

  const typename Quant::Block* row_of(std::size_t n) const {
    return reinterpret_cast<const typename Quant::Block*>(w_.row(n));
  }

  /// Outputs [begin, end); whole tiles, those that do not exist repeat the last one. Returns the pairs.
  std::size_t unpack_panel(std::size_t begin, std::size_t end, PairBlock<Quant>* to) const {
    const std::size_t pairs = (end - begin + 2 * kOutputPairs - 1) / (2 * kOutputPairs) * kOutputPairs;
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const auto* a = row_of(std::min(begin + 2 * pair, end - 1));
      const auto* b = row_of(std::min(begin + 2 * pair + 1, end - 1));
      for (std::size_t block = 0; block < blocks_; ++block) {
        ask_ahead<2 * sizeof(typename Quant::Block), kIsLarge<Quant>>(a + 8 * blocks_ + 2 * block);
        unpack_pair<Quant>(a[block], b[block], to[pair * blocks_ + block]);
      }
    }
    return pairs;
  }

  /// `count` rows of x from `row`; a second row of the last pair that does not exist repeats the first.
  void interleave(std::size_t row, std::size_t count, RowPairBlock<Quant>* to) const {
    for (std::size_t pair = 0; 2 * pair < count; ++pair) {
      const std::size_t first = row + 2 * pair;
      for (std::size_t block = 0; block < blocks_; ++block) {
        interleave_rows<Quant>(x_, first, std::min(first + 1, m_ - 1), block, to[pair * blocks_ + block]);
      }
    }
  }

  /// `rows` rows from `row`, the outputs of a tile from n.
  template <std::size_t kPairs>
  void tiles(const RowPairBlock<Quant>* x, std::size_t row, std::size_t rows, const PairBlock<Quant>* w,
             std::size_t n, std::size_t n_end) {
    if constexpr (kPairs > 1) {
      if (rows <= 2 * (kPairs - 1)) return tiles<kPairs - 1>(x, row, rows, w, n, n_end);
    }
    float32x4_t sums[kPairs][kOutputPairs];
    matrix_tile<Quant, kPairs, kOutputPairs>(x, blocks_, w, blocks_, blocks_, sums);
    const std::size_t outputs = std::min(2 * kOutputPairs, n_end - n);
    for (std::size_t i = 0; i < rows; ++i) {
      float values[2 * kOutputPairs];
      for (std::size_t j = 0; j < kOutputPairs; ++j) {
        const float32x4_t tile = sums[i / 2][j];
        vst1_f32(values + 2 * j, i % 2 == 0 ? vget_low_f32(tile) : vget_high_f32(tile));
      }
      std::copy(values, values + outputs, y_ + (row + i) * y_stride_ + n);
    }
  }

  const ActivationsOf<Quant> x_;
  const std::size_t m_;
  const WeightView& w_;
  float* y_;
  const std::size_t y_stride_;
  const std::size_t blocks_;
};

/// Outputs whose unpacked weights stay in the second cache beside the rows that pass, or in the first if few rows do.
inline std::size_t panel_outputs(std::size_t m, std::size_t columns) {
  const std::size_t bytes = m <= 8 ? std::size_t{32} << 10 : std::size_t{256} << 10;
  return std::clamp<std::size_t>(bytes / columns / 4 * 4, 4, 64);
}

template <class Quant>
void matrix_multiply(RowList listed, std::size_t m, const WeightView& w, float* y,
                     std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  MatrixProduct<Quant> product(listed, m, w, y, y_stride);
  product.panels(n_begin, n_end, panel_outputs(m, w.columns));
}

}  // namespace
}  // namespace reprise::gpu
