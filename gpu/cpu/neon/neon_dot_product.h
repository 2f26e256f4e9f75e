// The fast GEMM of quantized formats (int8_product.h) for few rows, with SDOT from the stored blocks: the
// weight is read once for up to four rows of x and unpacked only into registers. Four outputs run together,
// so that their float part is one vector.

#pragma once

#include <algorithm>

#include "gpu/cpu/formats/int8_product.h"
#include "gpu/cpu/neon/neon_quants.h"

namespace reprise::gpu {
namespace {

/// Returns four partial sums of sum_g weights(g) * (sum of x in g), for blocks of 256. sums: of x, per 16
/// elements.
template <class Quant>
[[gnu::always_inline]] inline int32x4_t weighted_sums(const int16x8x2_t& weights, const std::int16_t* sums) {
  const int16x8_t low = vld1q_s16(sums);
  const int16x8_t high = vld1q_s16(sums + 8);
  const auto product = [](int32x4_t to, int16x8_t a, int16x8_t b) {
    return vmlal_high_s16(vmlal_s16(to, vget_low_s16(a), vget_low_s16(b)), a, b);
  };
  if constexpr (Quant::kGroup == 32) {
    return product(vdupq_n_s32(0), weights.val[0], vpaddq_s16(low, high));
  } else {
    return product(product(vdupq_n_s32(0), weights.val[0], low), weights.val[1], high);
  }
}

[[gnu::always_inline]] inline int32x4_t fold_four(const int32x4_t (&a)[4]) {
  return vpaddq_s32(vpaddq_s32(a[0], a[1]), vpaddq_s32(a[2], a[3]));
}

/// Returns a zeroed register, distinct for each combination of arguments. MOVI of zero is free; the compiler
/// would copy another zero register, which occupies a pipe that multiplies.
template <std::size_t kPart = 0>
[[gnu::always_inline]] inline int32x4_t zeros_for(const void* block, const void* row) {
  int32x4_t zeros;
  asm("movi %0.4s, #0" : "=w"(zeros) : "r"(block), "r"(row), "i"(kPart));
  return zeros;
}

/// Computes four partial sums of a block's I per row. q, sums: the block's elements in each row of x, and
/// their sums.
template <class Quant, std::size_t kRows>
[[gnu::always_inline]] inline void scaled_dots(const typename Quant::Block& block,
                                               const std::int8_t* const (&q)[kRows],
                                               const std::int16_t* const (&sums)[kRows],
                                               int32x4_t (&to)[kRows]) {
  constexpr std::size_t kEach = Quant::kGroup / 16;  // vectors per group
  const int16x8x2_t scales = NeonQuant<Quant>::scales(block);
  const int32x4_t wide[4] = {vmovl_s16(vget_low_s16(scales.val[0])), vmovl_high_s16(scales.val[0]),
                             vmovl_s16(vget_low_s16(scales.val[1])), vmovl_high_s16(scales.val[1])};
  for (int32x4_t& sum : to) sum = vdupq_n_s32(0);
  // Fold four groups into one vector before scaling, because int32 multiplications are slow.
  for_each_index<16 / kEach / 4>([&](auto four) __attribute__((always_inline)) {
    int32x4_t dots[kRows][4];
    for_each_index<4>([&](auto group) __attribute__((always_inline)) {
      for (std::size_t i = 0; i < kRows; ++i) dots[i][group] = zeros_for<4 * four + group>(&block, q[i]);
      for_each_index<kEach>([&](auto part) __attribute__((always_inline)) {
        constexpr std::size_t kIndex =
            (4 * decltype(four)::value + decltype(group)::value) * kEach + decltype(part)::value;
        const int8x16_t w = NeonQuant<Quant>::template sixteen<kIndex>(block);
        for (std::size_t i = 0; i < kRows; ++i) {
          dots[i][group] = vdotq_s32(dots[i][group], w, vld1q_s8(q[i] + 16 * kIndex));
        }
      });
    });
    for (std::size_t i = 0; i < kRows; ++i) to[i] = vmlaq_s32(to[i], fold_four(dots[i]), wide[four]);
  });
  if constexpr (kZeroOf<Quant> != 0) {
    for (std::size_t i = 0; i < kRows; ++i) {
      to[i] = vmlsq_s32(to[i], weighted_sums<Quant>(scales, sums[i]), vdupq_n_s32(kZeroOf<Quant>));
    }
  }
}

/// scaled_dots() for one row and the blocks of four outputs, which share the loads of x.
template <class Quant>
[[gnu::always_inline]] inline void scaled_dots_of_four(const typename Quant::Block* const (&blocks)[4],
                                                       const std::int8_t* q, const std::int16_t* sums,
                                                       int32x4_t (&to)[4]) {
  constexpr std::size_t kEach = Quant::kGroup / 16;
  int16x8x2_t scales[4];
  for (std::size_t j = 0; j < 4; ++j) {
    scales[j] = NeonQuant<Quant>::scales(*blocks[j]);
    to[j] = vdupq_n_s32(0);
  }
  for_each_index<16 / kEach / 4>([&](auto four) __attribute__((always_inline)) {
    int8x16_t x[4 * kEach];
    for (std::size_t k = 0; k < 4 * kEach; ++k) x[k] = vld1q_s8(q + 16 * (4 * kEach * four + k));
    for_each_index<4>([&](auto j) __attribute__((always_inline)) {
      int32x4_t dots[4];
      for_each_index<4>([&](auto group) __attribute__((always_inline)) {
        dots[group] = zeros_for<4 * four + group>(blocks[j], q);
        for_each_index<kEach>([&](auto part) __attribute__((always_inline)) {
          constexpr std::size_t kPart = decltype(group)::value * kEach + decltype(part)::value;
          constexpr std::size_t kIndex = 4 * kEach * decltype(four)::value + kPart;
          dots[group] =
              vdotq_s32(dots[group], NeonQuant<Quant>::template sixteen<kIndex>(*blocks[j]), x[kPart]);
        });
      });
      const int16x8_t eight = scales[j].val[four / 2];
      const int32x4_t wide = four % 2 == 0 ? vmovl_s16(vget_low_s16(eight)) : vmovl_high_s16(eight);
      to[j] = vmlaq_s32(to[j], fold_four(dots), wide);
    });
  });
  if constexpr (kZeroOf<Quant> != 0) {
    for (std::size_t j = 0; j < 4; ++j) {
      to[j] = vmlsq_s32(to[j], weighted_sums<Quant>(scales[j], sums), vdupq_n_s32(kZeroOf<Quant>));
    }
  }
}

/// scaled_dots() for a block with one group, without the correction for kZero.
template <class Quant, std::size_t kRows>
[[gnu::always_inline]] inline void plain_dots(const typename Quant::Block& block,
                                              const std::int8_t* const (&q)[kRows], int32x4_t (&to)[kRows]) {
  for (std::size_t i = 0; i < kRows; ++i) to[i] = zeros_for(&block, q[i]);
  for_each_index<Quant::kFormat.block_size / 16>([&](auto index) __attribute__((always_inline)) {
    constexpr std::size_t kIndex = decltype(index)::value;
    const int8x16_t w = NeonQuant<Quant>::template sixteen<kIndex>(block);
    for (std::size_t i = 0; i < kRows; ++i) to[i] = vdotq_s32(to[i], w, vld1q_s8(q[i] + 16 * kIndex));
  });
}

/// Prefetches block b of the next tiles of four outputs. The distances with FEAT_I8MM were tuned on a
/// Neoverse V1: large formats go to L2 first and then to L1. The other was tuned on a Neoverse N1.
template <class Quant>
[[gnu::always_inline]] inline void prefetch_tiles(const typename Quant::Block* w, std::size_t blocks,
                                                  std::size_t b) {
  constexpr std::size_t kBytes = 4 * sizeof(typename Quant::Block);
  const auto block = [&](std::size_t tile) { return w + 4 * (tile * blocks + b); };
#ifdef __ARM_FEATURE_MATMUL_INT8
  if constexpr (kIsLarge<Quant>) {
    prefetch_bytes<kBytes, true>(block(4));
    prefetch_bytes<kBytes, false>(block(1));
  } else {
    prefetch_bytes<kBytes, false>(block(2));
  }
#else
  prefetch_bytes<kBytes, false>(block(1));
#endif
}

[[gnu::always_inline]] inline void store_some(float32x4_t four, std::size_t count, float* to) {
  if (count == 4) return vst1q_f32(to, four);
  float values[4];
  vst1q_f32(values, four);
  std::copy_n(values, count, to);
}

/// Computes kRows rows by four outputs, of which `outputs` exist.
template <class Quant, std::size_t kRows>
inline void dot_tile(const ActivationsOf<Quant>& x, const typename Quant::Block* const (&w)[4],
                     std::size_t outputs, float* y, std::size_t y_stride) {
  using X = ActivationsOf<Quant>;
  constexpr std::size_t kElements = Quant::kFormat.block_size;
  const std::size_t blocks = x.columns / kElements;
  float32x4_t sums[kRows];
  for (float32x4_t& sum : sums) sum = vdupq_n_f32(0.0F);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::int8_t* q[kRows];
    const std::int16_t* q_sums[kRows];
    for (std::size_t i = 0; i < kRows; ++i) {
      q[i] = x.q(i) + b * kElements;
      q_sums[i] = x.sums(i) + b * (kElements / X::kSumOf);
    }
    prefetch_tiles<Quant>(w[0], blocks, b);
    int32x4_t products[kRows][4];
    [[maybe_unused]] int32x4_t offsets[kRows][4];
    if constexpr (kHasGroupScales<Quant> && kRows == 1) {
      scaled_dots_of_four<Quant>({&w[0][b], &w[1][b], &w[2][b], &w[3][b]}, q[0], q_sums[0], products[0]);
    } else {
      for (std::size_t j = 0; j < 4; ++j) {
        int32x4_t to[kRows];
        if constexpr (kHasGroupScales<Quant>) {
          scaled_dots<Quant>(w[j][b], q, q_sums, to);
        } else {
          plain_dots<Quant>(w[j][b], q, to);
        }
        for (std::size_t i = 0; i < kRows; ++i) products[i][j] = to[i];
      }
    }
    if constexpr (kHasGroupScales<Quant> && Quant::kHasOffsets) {
      for (std::size_t j = 0; j < 4; ++j) {
        const int16x8x2_t groups = NeonQuant<Quant>::offsets(w[j][b]);
        for (std::size_t i = 0; i < kRows; ++i) offsets[i][j] = weighted_sums<Quant>(groups, q_sums[i]);
      }
    }
    const float32x4_t scales = scales_of_four<Quant>(w[0][b], w[1][b], w[2][b], w[3][b]);
    for (std::size_t i = 0; i < kRows; ++i) {
      int32x4_t whole = fold_four(products[i]);
      if constexpr (!kHasGroupScales<Quant> && kZeroOf<Quant> != 0) {
        whole = vsubq_s32(whole, vdupq_n_s32(kZeroOf<Quant> * q_sums[i][0]));
      }
      float32x4_t t = vmulq_f32(scales, vcvtq_f32_s32(whole));
      if constexpr (Quant::kHasOffsets) {
        float32x4_t sum;
        if constexpr (kHasGroupScales<Quant>) {
          sum = vcvtq_f32_s32(fold_four(offsets[i]));
        } else {
          sum = vdupq_n_f32(static_cast<float>(q_sums[i][0]));
        }
        t = vfmaq_f32(t, offsets_of_four<Quant>(w[0][b], w[1][b], w[2][b], w[3][b]), sum);
      }
      sums[i] = vfmaq_n_f32(sums[i], t, x.scales(i)[b]);
    }
  }
  for (std::size_t i = 0; i < kRows; ++i) store_some(sums[i], outputs, y + i * y_stride);
}

template <class Quant, std::size_t kRows>
inline void dot_rows(const ActivationsOf<Quant>& x, std::size_t rows,
                     const typename Quant::Block* const (&w)[4], std::size_t outputs, float* y,
                     std::size_t y_stride) {
  if (rows == kRows) {
    dot_tile<Quant, kRows>(x, w, outputs, y, y_stride);
  } else if constexpr (kRows > 1) {
    dot_rows<Quant, kRows - 1>(x, rows, w, outputs, y, y_stride);
  }
}

/// Pointers to the blocks of outputs n ... n + 3; missing outputs repeat the last.
template <class Quant>
struct FourOutputs {
  const typename Quant::Block* rows[4];
  std::size_t count;

  FourOutputs(const WeightView& w, std::size_t n, std::size_t n_end)
      : count(std::min<std::size_t>(4, n_end - n)) {
    for (std::size_t j = 0; j < 4; ++j) {
      rows[j] = reinterpret_cast<const typename Quant::Block*>(w.row(n + std::min(j, count - 1)));
    }
  }
};

template <class Quant>
void dot_multiply(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                  std::size_t n_begin, std::size_t n_end) {
  const ActivationsOf<Quant> all(listed, w.columns);
  // Chunks of rows of x that stay in L2 while all outputs pass.
  const std::size_t chunk =
      std::max<std::size_t>(4, (std::size_t{256} << 10) / ActivationsOf<Quant>::stride_of(w.columns) / 4 * 4);
  for (std::size_t first = 0; first < m; first += chunk) {
    const std::size_t last = std::min(m, first + chunk);
    for (std::size_t n = n_begin; n < n_end; n += 4) {
      const FourOutputs<Quant> outputs(w, n, n_end);
      for (std::size_t i = first; i < last; i += 4) {
        dot_rows<Quant, 4>(all.from(i), std::min<std::size_t>(4, last - i), outputs.rows, outputs.count,
                           y + i * y_stride + n, y_stride);
      }
    }
  }
}

}  // namespace
}  // namespace reprise::gpu
