// The fast GEMMs for FEAT_I8MM and FEAT_BF16: quantized weights with SMMLA (neon_smmla.h), or SDOT for one
// row of x; bf16 and FP8 with BFMMLA. Compiled with -march=armv8.2-a+dotprod+i8mm+bf16.

#include <arm_neon.h>

#include "gpu/cpu/formats/formats.h"
#include "gpu/cpu/lanes.h"
#include "gpu/cpu/neon/neon_dot_product.h"
#include "gpu/cpu/neon/neon_ordered.h"
#include "gpu/cpu/neon/neon_panels.h"
#include "gpu/cpu/neon/neon_smmla.h"
#include "gpu/cpu/tables.h"
#include "gpu/cpu/two_bf16.h"

namespace reprise::gpu {
namespace {

// The bf16 GEMM with BFMMLA.
//
// BFMMLA multiplies two rows of x by two rows of w over four k and adds to a 2x2 accumulator of f32. Bits:
// each output is one lane that accumulates eight k at a time, the high parts of x before the low ones, for
// any number of rows.

/// Eight elements of two rows, as two operands of four elements each.
struct RowPair {
  bfloat16x8_t first;
  bfloat16x8_t second;
};

/// Loads the first `count` < 8 elements, then zeros.
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

/// Computes 2 * kPairs rows by 2 * kOutputPairs outputs, of which `rows` and `outputs` exist.
template <int kPairs, int kOutputPairs>
inline void tile(const Activations& x, std::size_t rows, const std::uint16_t* w, std::size_t outputs,
                 std::size_t depth, float* y, std::size_t y_stride) {
  // Missing rows and outputs repeat the last; their results are not stored.
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

// Many rows of x: the same instructions in the same order, so the same bits, on operands paired in advance.

/// The Kernel (neon_panels.h) for bf16.
class Bf16Kernel {
 public:
  static constexpr std::size_t kRowPairs = 4;
  static constexpr std::size_t kOutputPairs = 4;
  static constexpr std::size_t kElements = 8;
  static constexpr std::size_t kDepth = 1024;
  struct alignas(16) Rows {
    // High parts of k 0 ... 3 of two rows, of k 4 ... 7, then the low parts.
    std::uint16_t parts[4][kRowPairs][8];
  };
  struct alignas(16) Outputs {
    std::uint16_t parts[2][kOutputPairs][8];  // k 0 ... 3 of two outputs, then k 4 ... 7
  };

  Bf16Kernel(const void* activations, const WeightView& w)
      : x_(activations, w.columns), w_(static_cast<const std::uint16_t*>(w.data)), columns_(w.columns) {}

  void interleave(std::size_t row, std::size_t other, std::size_t first, std::size_t blocks, Rows* to,
                  std::size_t pair) const {
    const std::uint16_t* a = x_.row(row) + 16 * first;
    const std::uint16_t* b = x_.row(other) + 16 * first;
    for (std::size_t block = 0; block < blocks; ++block, a += 16, b += 16, ++to) {
      store(pair_rows(vld1q_u16(a), vld1q_u16(b)), to->parts[0][pair], to->parts[1][pair]);
      store(pair_rows(vld1q_u16(a + 8), vld1q_u16(b + 8)), to->parts[2][pair], to->parts[3][pair]);
    }
  }
  void unpack(std::size_t n, std::size_t other, std::size_t first, std::size_t blocks, Outputs* to,
              std::size_t pair) const {
    for (std::size_t block = first; block < first + blocks; ++block, ++to) {
      const std::uint16_t* a = w_ + n * columns_ + 8 * block;
      const std::uint16_t* b = w_ + other * columns_ + 8 * block;
      const std::size_t left = columns_ - 8 * block;
      const auto load = [&](const std::uint16_t* p) { return left >= 8 ? vld1q_u16(p) : load_some(p, left); };
      store(pair_rows(load(a), load(b)), to->parts[0][pair], to->parts[1][pair]);
    }
  }
  template <std::size_t kPairs>
  [[gnu::noinline]] static void multiply(const Rows* x, const Outputs* w, std::size_t blocks,
                                         TileOutputs to) {
    float32x4_t sums[kPairs][kOutputPairs];
    const auto for_each = [](auto work) __attribute__((always_inline)) {
      for_each_index<kOutputPairs>([&](auto j) __attribute__((always_inline)) {
        for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) { work(i, j); });
      });
    };
    for_each([&](auto i, auto j) __attribute__((always_inline)) { sums[i][j] = to.load(i, j); });
    for (std::size_t b = 0; b < blocks; ++b, ++x, ++w) {
      for_each_index<4>([&](auto part) __attribute__((always_inline)) {
        bfloat16x8_t left[kPairs];
        for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) {
          left[i] = load_four(x->parts[part][i]);
        });
        for_each_index<kOutputPairs>([&](auto j) __attribute__((always_inline)) {
          const bfloat16x8_t right = load_four(w->parts[part % 2][j]);
          for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) {
            in_order(
                [&]() __attribute__((always_inline)) { return vbfmmlaq_f32(sums[i][j], left[i], right); },
                sums[i][j]);
          });
        });
      });
    }
    for_each([&](auto i, auto j) __attribute__((always_inline)) { to.store(i, j, sums[i][j]); });
  }

 private:
  static void store(const RowPair& pair, std::uint16_t* first, std::uint16_t* second) {
    vst1q_u16(first, vreinterpretq_u16_bf16(pair.first));
    vst1q_u16(second, vreinterpretq_u16_bf16(pair.second));
  }
  [[gnu::always_inline]] static bfloat16x8_t load_four(const std::uint16_t* from) {
    return vreinterpretq_bf16_u16(vld1q_u16(from));
  }

  const Activations x_;
  const std::uint16_t* w_;
  const std::size_t columns_;
};

/// Max rows for which panels do not pay.
constexpr std::size_t kFewBf16Rows = 8;

void multiply_bf16(const void* activations, std::size_t m, const WeightView& w, float* y,
                   std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  if (m <= kFewBf16Rows) return multiply_bf16_rows(activations, m, w, y, y_stride, n_begin, n_end);
  const Bf16Kernel kernel(activations, w);
  PanelProduct<Bf16Kernel>(kernel, m, w.columns, y, y_stride).multiply(n_begin, n_end);
}

// The FP8 GEMM with BFMMLA.
//
// bf16 represents e4m3 exactly, so stretches of 128 columns with one scale are widened to bf16 and multiplied
// as such. Bits: y starts at zero and adds the stretches in ascending order, y = fma(scale, sum of the
// stretch, y), independent of the number of rows and of ranges.

constexpr std::size_t kF8Stretch = 128;  // columns
constexpr std::size_t kF8Outputs = 8;
constexpr std::size_t kF8Rows = 48;  // rows of x whose accumulators are on the stack

/// Converts eight e4m3 elements to bf16. Shifted to the positions of an f16's fields, they are 2^-8 times the
/// value.
inline uint16x8_t f8_to_bf16(uint8x8_t elements) {
  const uint16x8_t wide = vmovl_u8(elements);
  const uint16x8_t sign = vshlq_n_u16(vandq_u16(wide, vdupq_n_u16(0x80)), 8);
  const uint16x8_t size = vshlq_n_u16(vandq_u16(wide, vdupq_n_u16(0x7f)), 7);
  const float16x8_t halves = vreinterpretq_f16_u16(vorrq_u16(sign, size));
  const float32x4_t low = vmulq_n_f32(vcvt_f32_f16(vget_low_f16(halves)), 0x1p8F);
  const float32x4_t high = vmulq_n_f32(vcvt_high_f32_f16(halves), 0x1p8F);
  return vuzp2q_u16(vreinterpretq_u16_f32(low), vreinterpretq_u16_f32(high));
}

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
    stretch.rows += 2 * k;  // two bf16 per element
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

template <const WeightFormat& kFormat>
constexpr Product f8_product() {
  return {.activations = &kTwoBf16<8>, .multiply = multiply_f8<kFormat.scales.columns>};
}

/// Returns the fastest version for m rows, tuned on a Neoverse V1. All have the same bits.
template <class Quant>
MultiplyRows multiply_for(std::size_t m) {
  if (m == 1) return dot_multiply<Quant>;
  // Panels pay from nine rows on for blocks of one group, and for groups of 16, which have twice the scales
  // to apply.
  constexpr std::size_t kFew = kHasGroupScales<Quant> && Quant::kGroup == 32 ? 16 : 8;
  return m <= kFew ? few_rows_multiply<Quant> : matrix_multiply<Quant>;
}

template <class Quant>
void dot_or_matrix_multiply(RowList listed, std::size_t m, const WeightView& w, float* y,
                            std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  multiply_for<Quant>(m)(listed, m, w, y, y_stride, n_begin, n_end);
}

template <class Quant>
constexpr Product dot_or_matrix_product() {
  return product_of_integers<Quant, dot_or_matrix_multiply<Quant>>();
}

constexpr auto kMatrixProducts =
    with_more(products_of_quants([]<class Quant>() constexpr { return dot_or_matrix_product<Quant>(); }),
              FastProduct{&kInt4Format, dot_or_matrix_product<Int4>()},
              FastProduct{&kF8TileFormat, f8_product<kF8TileFormat>()},
              FastProduct{&kF8RowFormat, f8_product<kF8RowFormat>()},
              FastProduct{&kBF16Format, {.activations = &kTwoBf16<8>, .multiply = multiply_bf16}});

}  // namespace

constinit const std::span<const FastProduct> kNeonI8mmProducts = kMatrixProducts;

}  // namespace reprise::gpu
