// The product of FP8 weights with FEAT_BF16's BFMMLA. Included by the kernel source for processors that have it, with
// internal linkage.
//
// An element of e4m3 is a bf16 number, so a stretch of columns with one scale is widened to bf16 on its way and
// multiplied as such (neon_bf16_product.h); the scale is multiplied with its sum. y is the sum over stretches of 128
// columns in ascending order, begun at zero: y = fma(scale, sum of the stretch, y). Nothing of it depends on the number
// of rows or on ranges of outputs.

#pragma once

#include "gpu/cpu/formats.h"
#include "gpu/cpu/neon_bf16_product.h"

namespace reprise::gpu {
namespace {

inline constexpr std::size_t kF8Stretch = 128;  // columns
inline constexpr std::size_t kF8Outputs = 8;
inline constexpr std::size_t kF8Rows = 48;  // of x, whose sums stand on the stack

/// Eight elements as bf16. Shifted into the places of an f16 they stand for values 2^8 smaller.
inline uint16x8_t f8_to_bf16(uint8x8_t elements) {
  const uint16x8_t wide = vmovl_u8(elements);
  const uint16x8_t sign = vshlq_n_u16(vandq_u16(wide, vdupq_n_u16(0x80)), 8);
  const uint16x8_t size = vshlq_n_u16(vandq_u16(wide, vdupq_n_u16(0x7f)), 7);
  const float16x8_t halves = vreinterpretq_f16_u16(vorrq_u16(sign, size));
  const float32x4_t low = vmulq_n_f32(vcvt_f32_f16(vget_low_f16(halves)), 0x1p8F);
  const float32x4_t high = vmulq_n_f32(vcvt_high_f32_f16(halves), 0x1p8F);
  return vuzp2q_u16(vreinterpretq_u16_f32(low), vreinterpretq_u16_f32(high));
}

/// `count` elements from `from`.
inline void widen_f8(const std::uint8_t* from, std::size_t count, std::uint16_t* to) {
  std::size_t k = 0;
  for (; k + 8 <= count; k += 8) vst1q_u16(to + k, f8_to_bf16(vld1_u8(from + k)));
  if (k == count) return;
  std::uint8_t padded[8] = {};
  std::memcpy(padded, from + k, count - k);
  std::uint16_t last[8];
  vst1q_u16(last, f8_to_bf16(vld1_u8(padded)));
  std::memcpy(to + k, last, (count - k) * sizeof(*to));
}

/// kOutputPairs pairs of outputs from n, of which `outputs` exist.
template <int kOutputPairs, std::size_t kTileColumns>
inline void f8_outputs(const Activations& x, std::size_t m, const WeightView& w, std::size_t n,
                       std::size_t outputs, float* y, std::size_t y_stride) {
  for (std::size_t i = 0; i < m; ++i) std::fill_n(y + i * y_stride, outputs, 0.0F);
  std::uint16_t panel[kF8Outputs * kF8Stretch];  // [outputs, columns of the stretch]
  float sums[kF8Rows * kF8Outputs];
  for (std::size_t k = 0; k < w.columns; k += kF8Stretch) {
    const std::size_t columns = std::min(kF8Stretch, w.columns - k);
    float scales[kF8Outputs];
    for (std::size_t j = 0; j < outputs; ++j) {
      const auto row = F8Reader<kTileColumns>::row(w, n + j);
      widen_f8(row.elements + k, columns, panel + j * columns);
      scales[j] = row.scales[k / kTileColumns];
    }
    Activations stretch = x;
    stretch.rows += 2 * k;  // both parts of each element
    for (std::size_t first = 0; first < m; first += kF8Rows) {
      const std::size_t rows = std::min(kF8Rows, m - first);
      outputs_tile<kOutputPairs>(stretch.from(first), rows, panel, outputs, columns, sums, kF8Outputs);
      for (std::size_t i = 0; i < rows; ++i) {
        float* to = y + (first + i) * y_stride;
        for (std::size_t j = 0; j < outputs; ++j) {
          to[j] = std::fma(scales[j], sums[i * kF8Outputs + j], to[j]);
        }
      }
    }
  }
}

template <std::size_t kTileColumns>
void multiply_f8(const void* activations, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                 std::size_t n_begin, std::size_t n_end) {
  const Activations x(activations, w.columns);
  std::size_t n = n_begin;
  for (; n + kF8Outputs <= n_end; n += kF8Outputs) {
    f8_outputs<kF8Outputs / 2, kTileColumns>(x, m, w, n, kF8Outputs, y + n, y_stride);
  }
  for (; n < n_end; n += 2) {
    f8_outputs<1, kTileColumns>(x, m, w, n, std::min<std::size_t>(2, n_end - n), y + n, y_stride);
  }
}

/// The product of a format of FP8.
template <const WeightFormat& kFormat>
constexpr Product f8_product() {
  return {.activations = &kTwoBf16<8>, .multiply = multiply_f8<kFormat.scales.columns>};
}

}  // namespace
}  // namespace reprise::gpu
