// The fast GEMM of quantized formats (int8_product.h) with SDOT, for processors with FEAT_DotProd. Compiled
// with -march=armv8.2-a+dotprod. multiply_by_dots() chooses by the number of rows between the stored blocks
// (neon_dot_product.h), DotFewTile and DotPanelTile.

#include <arm_neon.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "gpu/cpu/formats/formats.h"
#include "gpu/cpu/formats/int8_product.h"
#include "gpu/cpu/lanes.h"
#include "gpu/cpu/neon/neon_dot_product.h"
#include "gpu/cpu/neon/neon_ordered.h"
#include "gpu/cpu/neon/neon_quants.h"
#include "gpu/cpu/scratch_buffer.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {
namespace {

// S of a block (int8_product.h) for four outputs at a time: the group offsets times the sums of x over the
// groups. A sum of x exceeds eight bits, so it is split into s = 64 h + l with 0 <= l < 64: two SDOT for four
// groups instead of four int16 multiplications, which have only one pipe.

/// The split sums of a row of x over a block of 256; |s| <= 32 * 127.
template <std::size_t kGroups>
struct SplitSums {
  static_assert(kGroups == 8 || kGroups == 16);
  static constexpr std::size_t kFours = kGroups / 4;
  int8x16_t bytes[kGroups / 8];  // h of all groups, then l

  /// sums: per sixteen elements.
  static SplitSums of(const std::int16_t* sums) {
    const int16x8_t low = vld1q_s16(sums);
    const int16x8_t high = vld1q_s16(sums + 8);
    if constexpr (kGroups == 8) {
      const int16x8_t all = vpaddq_s16(low, high);
      return {{vcombine_s8(upper(all), lower(all))}};
    } else {
      return {{vcombine_s8(upper(low), upper(high)), vcombine_s8(lower(low), lower(high))}};
    }
  }

 private:
  static int8x8_t upper(int16x8_t sums) { return vshrn_n_s16(sums, 6); }
  static int8x8_t lower(int16x8_t sums) { return vmovn_s16(vandq_s16(sums, vdupq_n_s16(63))); }
};

/// The group offsets of four outputs; a vector has four groups of each.
template <std::size_t kGroups>
struct OffsetBytes {
  static constexpr std::size_t kFours = kGroups / 4;
  int8x16_t of[kFours];

  /// numbers: per output, one int16 per group, from 0 to 127.
  static OffsetBytes interleaved(const int16x8x2_t (&numbers)[4]) {
    OffsetBytes bytes;
    for (std::size_t eight = 0; eight < kGroups / 8; ++eight) {
      const int32x4_t first = vreinterpretq_s32_s8(
          vcombine_s8(vmovn_s16(numbers[0].val[eight]), vmovn_s16(numbers[1].val[eight])));
      const int32x4_t second = vreinterpretq_s32_s8(
          vcombine_s8(vmovn_s16(numbers[2].val[eight]), vmovn_s16(numbers[3].val[eight])));
      bytes.of[2 * eight] = vreinterpretq_s8_s32(vuzp1q_s32(first, second));
      bytes.of[2 * eight + 1] = vreinterpretq_s8_s32(vuzp2q_s32(first, second));
    }
    return bytes;
  }

  [[gnu::always_inline]] int32x4_t weigh(const SplitSums<kGroups>& x) const {
    int32x4_t sum = vdupq_n_s32(0);
    for_each_index<kFours>([&](auto four) __attribute__((always_inline)) {
      sum = vdotq_laneq_s32(sum, of[four], x.bytes[four / 4], four % 4);
    });
    sum = vshlq_n_s32(sum, 6);
    for_each_index<kFours>([&](auto four) __attribute__((always_inline)) {
      constexpr std::size_t kLowPart = kFours + decltype(four)::value;
      sum = vdotq_laneq_s32(sum, of[four], x.bytes[kLowPart / 4], kLowPart % 4);
    });
    return sum;
  }
};

template <class Quant, class Block = typename Quant::Block>
[[gnu::always_inline]] inline auto offset_bytes(const Block& a, const Block& b, const Block& c,
                                                const Block& d) {
  using Neon = NeonQuant<Quant>;
  return OffsetBytes<Quant::kFormat.block_size / Quant::kGroup>::interleaved(
      {Neon::offsets(a), Neon::offsets(b), Neon::offsets(c), Neon::offsets(d)});
}

// Few rows of x by formats with several groups per block. Accumulator lanes are four outputs, as in panels,
// so that the scales of a group are one vector. A panel would be used too few times, so the packed bytes of
// four blocks are interleaved and unpacked in registers.

template <class Quant, std::size_t kRows>
struct DotFewTile {
  using X = ActivationsOf<Quant>;
  using Block = typename Quant::Block;
  static constexpr std::size_t kElements = Quant::kFormat.block_size;
  static constexpr std::size_t kGroups = kElements / Quant::kGroup;
  static constexpr std::size_t kEach = Quant::kGroup / 16;  // vectors per group
  using Groups = GroupScales<Quant>;
  using Interleaved = InterleavedBlocks<Quant, 4, interleave_words>;

  /// Computes I of a block per row. The scaling of a group is interleaved with the next group's SDOTs.
  [[gnu::always_inline]] static void multiply(const Interleaved& w, const Groups& scales,
                                              const std::int8_t* const (&q)[kRows],
                                              int32x4_t (&whole)[kRows]) {
    for (std::size_t i = 0; i < kRows; ++i) zero_here(whole[i]);
    int32x4_t dots[2][kRows];  // sums of the current and the previous group, alternating
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
        const int8x16_t numbers = sixteen_integers<Quant, kIndex>(w.parts[kStep % 4].block);
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

  /// row_sums: [row][block], if the format has offsets.
  [[gnu::noinline]] static void run(const X& x, const SplitSums<kGroups>* row_sums,
                                    const Block* const (&w)[4], std::size_t outputs, float* y,
                                    std::size_t y_stride) {
    const std::size_t blocks = x.columns / kElements;
    float32x4_t sums[kRows];
    for (float32x4_t& sum : sums) sum = vdupq_n_f32(0.0F);
    Interleaved interleaved;
    for (std::size_t b = 0; b < blocks; ++b) {
      const Block* const four[4] = {&w[0][b], &w[1][b], &w[2][b], &w[3][b]};
      prefetch_tiles<Quant>(w[0], blocks, b);
      interleaved.interleave(four);
      const std::int8_t* q[kRows];
      for (std::size_t i = 0; i < kRows; ++i) q[i] = x.q(i) + b * kElements;
      const Groups scales(*four[0], *four[1], *four[2], *four[3]);
      int32x4_t whole[kRows];
      multiply(interleaved, scales, q, whole);
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

  static void run_some(const X& x, const SplitSums<kGroups>* row_sums, std::size_t rows,
                       const Block* const (&w)[4], std::size_t outputs, float* y, std::size_t y_stride) {
    if (rows == kRows) return run(x, row_sums, w, outputs, y, y_stride);
    if constexpr (kRows > 1) {
      DotFewTile<Quant, kRows - 1>::run_some(x, row_sums, rows, w, outputs, y, y_stride);
    }
  }
};

constexpr std::size_t kDotFewRows = 8;  // max rows per tile

/// MultiplyRows with DotFewTile. Every tile of rows unpacks the weights again, from the caches.
template <class Quant>
void dot_few_multiply(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                      std::size_t n_begin, std::size_t n_end) {
  using Tile = DotFewTile<Quant, kDotFewRows>;
  using Sums = SplitSums<Tile::kGroups>;
  const ActivationsOf<Quant> x(listed, w.columns);
  const std::size_t blocks = w.columns / Tile::kElements;
  Sums* sums = nullptr;
  if constexpr (Quant::kHasOffsets) {
    thread_local ScratchBuffer<Sums> scratch;
    sums = scratch.of(m * blocks);
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

// Many rows of x: weights are unpacked once, a panel of outputs at a time, and multiplied by all rows.
//
// Accumulator lanes are outputs: SDOT by a lane of x multiplies four elements of a row by the same elements
// of four outputs. So a block needs no horizontal sum, and its scales are one vector for four outputs.
//
// The panels of a group of outputs, 256 elements of k deep, stay in L1 while all rows pass; y carries the
// sums to the next 256.

constexpr std::size_t kDotRows = 4;                   // rows per tile
constexpr std::size_t kDotVectors = 2;                // vectors of four outputs per tile
constexpr std::size_t kDotOutputs = 4 * kDotVectors;  // outputs per tile and panel
constexpr std::size_t kDotDepth = 256;                // elements of k per panel
constexpr std::size_t kDotPanels = 64 / kDotOutputs;  // panels per group

/// 256 elements of k of eight outputs.
template <class Quant>
struct DotPanel {
  static constexpr std::size_t kElements = Quant::kFormat.block_size;
  static constexpr std::size_t kGroups = kElements / Quant::kGroup;  // groups per block

  alignas(64) std::int8_t q[kDotDepth / 4][kDotOutputs][4];
  float scale[kDotDepth / kElements][kDotOutputs];
  float offset[kDotDepth / kElements][kDotOutputs];  // if the format has offsets
  // Formats with several groups per block, of which a panel has one block.
  std::int32_t group_scale[kGroups][kDotOutputs];
  std::int8_t group_offset[kGroups / 4 + (kGroups < 4)][kDotOutputs][4];
};

/// Transposes four words of four outputs and stores them.
[[gnu::always_inline]] inline void store_words(const int8x16_t (&outputs)[4],
                                               std::int8_t (*words)[kDotOutputs][4], std::size_t first) {
  const auto pairs = [&](std::size_t i, bool odd) __attribute__((always_inline)) {
    const int32x4_t a = vreinterpretq_s32_s8(outputs[i]);
    const int32x4_t b = vreinterpretq_s32_s8(outputs[i + 1]);
    return vreinterpretq_s64_s32(odd ? vtrn2q_s32(a, b) : vtrn1q_s32(a, b));
  };
  const auto store = [&](int64x2_t word, std::size_t index) __attribute__((always_inline)) {
    vst1q_s8(words[index][first], vreinterpretq_s8_s64(word));
  };
  store(vtrn1q_s64(pairs(0, false), pairs(2, false)), 0);
  store(vtrn1q_s64(pairs(0, true), pairs(2, true)), 1);
  store(vtrn2q_s64(pairs(0, false), pairs(2, false)), 2);
  store(vtrn2q_s64(pairs(0, true), pairs(2, true)), 3);
}

/// Unpacks blocks with several groups, of four outputs from `first`: integers, group scales and group
/// offsets.
template <class Quant>
inline void store_groups(const typename Quant::Block* const (&four)[4], DotPanel<Quant>& to,
                         std::size_t first) {
  InterleavedBlocks<Quant, 4, interleave_words> interleaved;
  interleaved.interleave(four);
  for_each_index<kDotDepth / 16>([&](auto index) __attribute__((always_inline)) {
    for (std::size_t word = 0; word < 4; ++word) {
      const int8x16_t numbers = sixteen_integers<Quant, index>(interleaved.parts[word].block);
      vst1q_s8(to.q[4 * index + word][first], numbers);
    }
  });
  const GroupScales<Quant> scales(*four[0], *four[1], *four[2], *four[3]);
  for_each_index<DotPanel<Quant>::kGroups>([&](auto group) __attribute__((always_inline)) {
    vst1q_s32(&to.group_scale[group][first], scales.template wide<group>());
  });
  if constexpr (Quant::kHasOffsets) {
    const auto offsets = offset_bytes<Quant>(*four[0], *four[1], *four[2], *four[3]);
    for (std::size_t i = 0; i < offsets.kFours; ++i) vst1q_s8(to.group_offset[i][first], offsets.of[i]);
  }
}

template <class Quant>
void fill_dot_panel(const typename Quant::Block* const (&w)[kDotOutputs], std::size_t blocks,
                    DotPanel<Quant>& to) {
  constexpr std::size_t kElements = DotPanel<Quant>::kElements;
  for (std::size_t b = 0; b < blocks; ++b) {
    for (std::size_t first = 0; first < kDotOutputs; first += 4) {
      const typename Quant::Block* const four[4] = {&w[first][b], &w[first + 1][b], &w[first + 2][b],
                                                    &w[first + 3][b]};
      if constexpr (kHasGroupScales<Quant>) {
        store_groups(four, to, first);
      } else {
        for_each_index<kElements / 16>([&](auto index) __attribute__((always_inline)) {
          int8x16_t outputs[4];
          for (std::size_t j = 0; j < 4; ++j) outputs[j] = sixteen_integers<Quant, index>(*four[j]);
          store_words(outputs, to.q + b * kElements / 4 + 4 * index, first);
        });
      }
      vst1q_f32(&to.scale[b][first], scales_of_four<Quant>(*four[0], *four[1], *four[2], *four[3]));
      if constexpr (Quant::kHasOffsets) {
        vst1q_f32(&to.offset[b][first], offsets_of_four<Quant>(*four[0], *four[1], *four[2], *four[3]));
      }
    }
  }
}

template <class Quant, std::size_t kRows>
struct DotPanelTile {
  using X = ActivationsOf<Quant>;
  using Panel = DotPanel<Quant>;
  using Products = int32x4_t[kRows][kDotVectors];
  using Sums = float32x4_t[kRows][kDotVectors];
  static constexpr std::size_t kElements = Panel::kElements;

  template <class Work>
  [[gnu::always_inline]] static void for_each(Work work) {
    for_each_index<kRows>([&](auto i) __attribute__((always_inline)) {
      for_each_index<kDotVectors>([&](auto v) __attribute__((always_inline)) { work(i, v); });
    });
  }

  /// Computes the dot products of 16 * kSixteens elements from `at`. q: the rows at the panel's first
  /// element.
  template <std::size_t kSixteens>
  [[gnu::always_inline]] static void multiply(const std::int8_t* const (&q)[kRows], const Panel& w,
                                              std::size_t at, Products& dots) {
    for_each([&](auto i, auto v) __attribute__((always_inline)) { zero_here(dots[i][v]); });
    for_each_index<kSixteens>([&](auto part) __attribute__((always_inline)) {
      int8x16_t left[kRows];
      for (std::size_t i = 0; i < kRows; ++i) load_here(left[i], q[i] + at + 16 * part);
      for_each_index<4>([&](auto word) __attribute__((always_inline)) {
        int8x16_t right[kDotVectors];
        for (std::size_t v = 0; v < kDotVectors; ++v) {
          load_here(right[v], w.q[at / 4 + 4 * part + word][4 * v]);
        }
        for_each([&](auto i, auto v)
                     __attribute__((always_inline)) { dot_here<word>(dots[i][v], right[v], left[i]); });
      });
    });
  }

  using RowSums = SplitSums < Panel::kGroups<8 ? 8 : Panel::kGroups>;  // for blocks with several groups

  /// Computes the block's S.
  [[gnu::always_inline]] static void weigh_sums(const RowSums* sums, const Panel& w, Products& to) {
    for_each_index<kDotVectors>([&](auto v) __attribute__((always_inline)) {
      OffsetBytes<Panel::kGroups> offsets;
      for (std::size_t i = 0; i < offsets.kFours; ++i) offsets.of[i] = vld1q_s8(w.group_offset[i][4 * v]);
      for (std::size_t i = 0; i < kRows; ++i) to[i][v] = offsets.weigh(sums[i]);
    });
  }

  /// Multiplies `blocks` blocks, from element k of the rows. sums: of the rows, if groups have offsets. add:
  /// adds to y.
  [[gnu::noinline]] static void run(const X& x, std::size_t k, const RowSums* sums, const Panel& w,
                                    std::size_t blocks, bool add, float* y, std::size_t y_stride) {
    Sums totals;
    const std::int8_t* q[kRows];
    const float* scales[kRows];
    const std::int16_t* q_sums[kRows];
    for (std::size_t i = 0; i < kRows; ++i) {
      q[i] = x.q(i) + k;
      scales[i] = x.scales(i) + k / kElements;
      q_sums[i] = x.sums(i) + k / X::kSumOf;
    }
    for_each([&](auto i, auto v) __attribute__((always_inline)) {
      totals[i][v] = add ? vld1q_f32(y + i * y_stride + 4 * v) : vdupq_n_f32(0.0F);
    });
    for (std::size_t b = 0; b < blocks; ++b) {
      Products whole;
      [[maybe_unused]] Products offsets;
      if constexpr (kHasGroupScales<Quant>) {
        for_each([&](auto i, auto v) __attribute__((always_inline)) { whole[i][v] = vdupq_n_s32(0); });
        for (std::size_t g = 0; g < Panel::kGroups; ++g) {
          Products dots;
          multiply<Quant::kGroup / 16>(q, w, g * Quant::kGroup, dots);
          for_each([&](auto i, auto v) __attribute__((always_inline)) {
            whole[i][v] = vmlaq_s32(whole[i][v], dots[i][v], vld1q_s32(&w.group_scale[g][4 * v]));
          });
        }
        if constexpr (Quant::kHasOffsets) weigh_sums(sums, w, offsets);
      } else {
        multiply<kElements / 16>(q, w, b * kElements, whole);
      }
      for_each([&](auto i, auto v) __attribute__((always_inline)) {
        float32x4_t t = vmulq_f32(vld1q_f32(&w.scale[b][4 * v]), vcvtq_f32_s32(whole[i][v]));
        if constexpr (Quant::kHasOffsets) {
          float32x4_t sum;
          if constexpr (kHasGroupScales<Quant>) {
            sum = vcvtq_f32_s32(offsets[i][v]);
          } else {
            sum = vdupq_n_f32(static_cast<float>(q_sums[i][b]));
          }
          t = vfmaq_f32(t, vld1q_f32(&w.offset[b][4 * v]), sum);
        }
        totals[i][v] = vfmaq_n_f32(totals[i][v], t, scales[i][b]);
      });
    }
    for_each([&](auto i, auto v)
                 __attribute__((always_inline)) { vst1q_f32(y + i * y_stride + 4 * v, totals[i][v]); });
  }

  static void run_some(const X& x, std::size_t rows, std::size_t k, const RowSums* sums, const Panel& w,
                       std::size_t blocks, std::size_t outputs, bool add, float* y, std::size_t y_stride) {
    if constexpr (kRows > 1) {
      if (rows < kRows) {
        return DotPanelTile<Quant, kRows - 1>::run_some(x, rows, k, sums, w, blocks, outputs, add, y,
                                                        y_stride);
      }
    }
    if (outputs == kDotOutputs) return run(x, k, sums, w, blocks, add, y, y_stride);
    float apart[kRows][kDotOutputs] = {};
    for (std::size_t i = 0; add && i < kRows; ++i) std::copy_n(y + i * y_stride, outputs, apart[i]);
    run(x, k, sums, w, blocks, add, apart[0], kDotOutputs);
    for (std::size_t i = 0; i < kRows; ++i) std::copy_n(apart[i], outputs, y + i * y_stride);
  }
};

/// Unpacks `blocks` blocks of outputs n ... n + 7, from element k; outputs from n_end on repeat the last.
template <class Quant>
void fill_dot_panel(const WeightView& w, std::size_t n, std::size_t n_end, std::size_t k, std::size_t blocks,
                    DotPanel<Quant>& to) {
  using Block = typename Quant::Block;
  const Block* rows[kDotOutputs];
  for (std::size_t j = 0; j < kDotOutputs; ++j) {
    const std::byte* row = w.row(std::min(n + j, n_end - 1));
    rows[j] = reinterpret_cast<const Block*>(row) + k / DotPanel<Quant>::kElements;
    prefetch_bytes<kDotDepth / DotPanel<Quant>::kElements * sizeof(Block), false>(
        reinterpret_cast<const std::byte*>(rows[j]) + kDotOutputs * w.row_bytes());
  }
  fill_dot_panel<Quant>(rows, blocks, to);
}

template <class Quant>
void dot_panels_multiply(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                         std::size_t n_begin, std::size_t n_end) {
  constexpr std::size_t kElements = DotPanel<Quant>::kElements;
  const ActivationsOf<Quant> x(listed, w.columns);
  DotPanel<Quant> panels[kDotPanels];
  for (std::size_t n = n_begin; n < n_end; n += kDotPanels * kDotOutputs) {
    const std::size_t end = std::min(n_end, n + kDotPanels * kDotOutputs);
    for (std::size_t k = 0; k < w.columns; k += kDotDepth) {
      const std::size_t blocks = std::min(kDotDepth, w.columns - k) / kElements;
      for (std::size_t first = n; first < end; first += kDotOutputs) {
        fill_dot_panel<Quant>(w, first, end, k, blocks, panels[(first - n) / kDotOutputs]);
      }
      for (std::size_t row = 0; row < m; row += kDotRows) {
        const std::size_t rows = std::min(kDotRows, m - row);
        using RowSums = typename DotPanelTile<Quant, kDotRows>::RowSums;
        RowSums sums[kDotRows];
        if constexpr (kHasGroupScales<Quant> && Quant::kHasOffsets) {
          for (std::size_t i = 0; i < rows; ++i) {
            sums[i] = RowSums::of(x.sums(row + i) + k / ActivationsOf<Quant>::kSumOf);
          }
        }
        for (std::size_t first = n; first < end; first += kDotOutputs) {
          DotPanelTile<Quant, kDotRows>::run_some(
              x.from(row), rows, k, sums, panels[(first - n) / kDotOutputs], blocks,
              std::min(kDotOutputs, end - first), k != 0, y + row * y_stride + first, y_stride);
        }
      }
    }
  }
}

/// MultiplyRows that chooses the fastest version for m rows, tuned on a Neoverse N1. All have the same bits.
template <class Quant>
void multiply_by_dots(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                      std::size_t n_begin, std::size_t n_end) {
  if constexpr (kHasGroupScales<Quant>) {
    // Panels of formats with groups of 16 have twice the scales and take longer to fill.
    constexpr std::size_t kMax = Quant::kGroup == 16 ? 12 : 8;
    if (m > 1 && m <= kMax) {
      return dot_few_multiply<Quant>(listed, m, w, y, y_stride, n_begin, n_end);
    }
  }
  constexpr std::size_t kFew = kIsLarge<Quant> ? 8 : 4;  // large formats are bytes already: no unpacking
  const MultiplyRows multiply = m <= kFew ? dot_multiply<Quant> : dot_panels_multiply<Quant>;
  multiply(listed, m, w, y, y_stride, n_begin, n_end);
}

constexpr auto kDotProducts =
    with_more(products_of_quants([]<class Quant>() constexpr {
                return product_of_integers<Quant, multiply_by_dots<Quant>>();
              }),
              FastProduct{&kInt4Format, product_of_integers<Int4, multiply_by_dots<Int4>>()});

}  // namespace

constinit const std::span<const FastProduct> kNeonDotprodProducts = kDotProducts;

}  // namespace reprise::gpu
