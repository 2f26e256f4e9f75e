// The kernels on AVX-512: the f32 ones with the eight lanes that fix their bits, the bf16 matrix product with
// VDPBF16PS on 32 elements of k at a time. Compiled with -mavx512f -mavx512bw -mavx512vl -mavx512bf16; the
// bf16 product is called only where the processor has it.
//
// Each element of the result has one vector of sixteen partial sums over k = 0, 32, 64, ..., in every tile
// shape.

#include <immintrin.h>

#include "gpu/cpu/panel_product.h"
#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"
#include "gpu/cpu/two_bf16.h"

namespace reprise::gpu {

namespace {

inline __m512bh load_pairs(const std::uint16_t* p, std::size_t left) {
  if (left >= 32) return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
  const __mmask32 mask = (1U << left) - 1;
  return reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(mask, p));
}

/// The sum of all lanes, in halves. (GCC 12 warns about its own _mm512_reduce_add_ps.)
inline float fold(__m512 a) {
  float lane[16];
  _mm512_storeu_ps(lane, a);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

using Activations = TwoBf16<32>;

template <int kRows, int kOutputs>
inline void tile(const Activations& x, const std::uint16_t* w, std::size_t depth, float* y,
                 std::size_t y_stride) {
  __m512 sums[kRows][kOutputs];
  for (auto& row : sums) {
    for (__m512& s : row) s = _mm512_setzero_ps();
  }
  for (std::size_t k = 0; k < depth; k += 32) {
    __m512bh b[kOutputs];
    for (int j = 0; j < kOutputs; ++j) b[j] = load_pairs(w + j * depth + k, depth - k);
    for (int i = 0; i < kRows; ++i) {
      const std::uint16_t* parts = x.row(i) + 2 * k;
      const __m512bh high = load_pairs(parts, 32);
      const __m512bh low = load_pairs(parts + 32, 32);
      for (int j = 0; j < kOutputs; ++j) {
        sums[i][j] = _mm512_dpbf16_ps(sums[i][j], high, b[j]);
        sums[i][j] = _mm512_dpbf16_ps(sums[i][j], low, b[j]);
      }
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kOutputs; ++j) y[i * y_stride + j] = fold(sums[i][j]);
  }
}

template <int kOutputs>
inline void outputs_tile(const Activations& x, std::size_t m, const std::uint16_t* w, std::size_t depth,
                         float* y, std::size_t y_stride) {
  std::size_t i = 0;
  for (; i + 4 <= m; i += 4) tile<4, kOutputs>(x.from(i), w, depth, y + i * y_stride, y_stride);
  for (; i < m; ++i) tile<1, kOutputs>(x.from(i), w, depth, y + i * y_stride, y_stride);
}

void multiply_bf16(const void* activations, std::size_t m, const WeightView& w, float* y,
                   std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  const std::size_t depth = w.columns;
  const auto* rows = static_cast<const std::uint16_t*>(w.data);
  const Activations x(activations, depth);
  std::size_t n = n_begin;
  for (; n + 4 <= n_end; n += 4) outputs_tile<4>(x, m, rows + n * depth, depth, y + n, y_stride);
  for (; n < n_end; ++n) outputs_tile<1>(x, m, rows + n * depth, depth, y + n, y_stride);
}

constexpr auto kFormatsWithBf16 =
    with_fast(kFormats, kBF16Format, {.activations = &kTwoBf16<32>, .multiply = multiply_bf16});

}  // namespace

namespace {
constexpr auto kAvx512Formats = with_panels(kFormats);
}  // namespace
constinit const Kernels kAvx512Kernels = make_table(Isa::kAvx512, kAvx512Formats);
constinit const Kernels kAvx512Bf16Kernels = make_table(Isa::kAvx512, kFormatsWithBf16);

}  // namespace reprise::gpu
