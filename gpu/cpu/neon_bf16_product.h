// The bf16 matrix product with FEAT_BF16's BFMMLA. Included by the kernel source for processors that have it, with
// internal linkage.
//
// BFMMLA multiplies two rows of x by two rows of w over four k and adds to a 2x2 tile of f32 sums. Each
// element of the result is summed over k = 0, 8, 16, ..., the high part of x before the low one, in one such
// lane whatever the number of rows.

#pragma once

#include <arm_neon.h>

#include "gpu/cpu/two_bf16.h"

namespace reprise::gpu {

namespace {

/// Rows p and p + 1 (of `depth`, where the second exists) at k ... k + 7, as two operands of four k each.
struct RowPair {
  bfloat16x8_t first;
  bfloat16x8_t second;
};

/// The first `count` < 8 elements, then zeros.
inline uint16x8_t load_some(const std::uint16_t* p, std::size_t count) {
  std::uint16_t padded[8] = {};
  std::memcpy(padded, p, count * sizeof(*p));
  return vld1q_u16(padded);
}

inline RowPair pair_rows(uint16x8_t a, uint16x8_t b) {
  const uint64x2_t x = vreinterpretq_u64_u16(a);
  const uint64x2_t y = vreinterpretq_u64_u16(b);
  return {vreinterpretq_bf16_u64(vzip1q_u64(x, y)), vreinterpretq_bf16_u64(vzip2q_u64(x, y))};
}

using Activations = TwoBf16<8>;

/// 2 * kPairs rows by 2 * kOutputPairs outputs, of which `rows` and `outputs` exist.
template <int kPairs, int kOutputPairs>
inline void tile(const Activations& x, std::size_t rows, const std::uint16_t* w, std::size_t outputs,
                 std::size_t depth, float* y, std::size_t y_stride) {
  // Rows that do not exist repeat the last one; their results are not stored.
  const std::uint16_t* parts[2 * kPairs];
  const std::uint16_t* weights[2 * kOutputPairs];
  for (std::size_t i = 0; i < 2 * kPairs; ++i) parts[i] = x.row(std::min(i, rows - 1));
  for (std::size_t j = 0; j < 2 * kOutputPairs; ++j) weights[j] = w + std::min(j, outputs - 1) * depth;

  float32x4_t sums[kPairs][kOutputPairs];
  for (auto& line : sums) {
    for (float32x4_t& s : line) s = vdupq_n_f32(0.0F);
  }
  const auto step = [&](std::size_t k, auto load) {
    RowPair a[kPairs];
    RowPair b[kPairs];
    for (int i = 0; i < kPairs; ++i) {
      const std::uint16_t* even = parts[2 * i] + 2 * k;
      const std::uint16_t* odd = parts[2 * i + 1] + 2 * k;
      a[i] = pair_rows(vld1q_u16(even), vld1q_u16(odd));
      b[i] = pair_rows(vld1q_u16(even + 8), vld1q_u16(odd + 8));
    }
    for (int j = 0; j < kOutputPairs; ++j) {
      const RowPair c = pair_rows(load(weights[2 * j] + k), load(weights[2 * j + 1] + k));
      for (int i = 0; i < kPairs; ++i) sums[i][j] = vbfmmlaq_f32(sums[i][j], a[i].first, c.first);
      for (int i = 0; i < kPairs; ++i) sums[i][j] = vbfmmlaq_f32(sums[i][j], a[i].second, c.second);
      for (int i = 0; i < kPairs; ++i) sums[i][j] = vbfmmlaq_f32(sums[i][j], b[i].first, c.first);
      for (int i = 0; i < kPairs; ++i) sums[i][j] = vbfmmlaq_f32(sums[i][j], b[i].second, c.second);
    }
  };
  std::size_t k = 0;
  for (; k + 8 <= depth; k += 8) step(k, [](const std::uint16_t* p) { return vld1q_u16(p); });
  if (k < depth) step(k, [&](const std::uint16_t* p) { return load_some(p, depth - k); });

  for (std::size_t i = 0; i < kPairs; ++i) {
    for (std::size_t j = 0; j < kOutputPairs; ++j) {
      float values[4];
      vst1q_f32(values, sums[i][j]);
      for (std::size_t r = 0; r < 2; ++r) {
        for (std::size_t c = 0; c < 2; ++c) {
          if (2 * i + r < rows && 2 * j + c < outputs)
            y[(2 * i + r) * y_stride + 2 * j + c] = values[2 * r + c];
        }
      }
    }
  }
}

template <int kOutputPairs>
inline void outputs_tile(const Activations& x, std::size_t m, const std::uint16_t* w, std::size_t outputs,
                         std::size_t depth, float* y, std::size_t y_stride) {
  std::size_t i = 0;
  for (; i + 4 < m; i += 6) {
    tile<3, kOutputPairs>(x.from(i), std::min<std::size_t>(6, m - i), w, outputs, depth, y + i * y_stride,
                          y_stride);
  }
  if (i + 2 < m) {
    tile<2, kOutputPairs>(x.from(i), m - i, w, outputs, depth, y + i * y_stride, y_stride);
  } else if (i < m) {
    tile<1, kOutputPairs>(x.from(i), m - i, w, outputs, depth, y + i * y_stride, y_stride);
  }
}

[[gnu::noinline]] void multiply_bf16_rows(const void* activations, std::size_t m, const WeightView& w,
                                          float* y, std::size_t y_stride, std::size_t n_begin,
                                          std::size_t n_end) {
  const std::size_t depth = w.columns;
  const auto* rows = static_cast<const std::uint16_t*>(w.data);
  const Activations x(activations, depth);
  std::size_t n = n_begin;
  for (; n + 8 <= n_end; n += 8) outputs_tile<4>(x, m, rows + n * depth, 8, depth, y + n, y_stride);
  for (; n < n_end; n += 2) {
    outputs_tile<1>(x, m, rows + n * depth, std::min<std::size_t>(2, n_end - n), depth, y + n, y_stride);
  }
}

}  // namespace

}  // namespace reprise::gpu
