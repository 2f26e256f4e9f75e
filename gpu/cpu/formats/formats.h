// For every weight format: a Reader, the exact GEMM (weights widened in registers, f32 arithmetic), and its
// row of the kernel table (kFormats), into which an instruction set can insert faster products.
//
// A Reader has
//   Row                      pointers to a row of the weight
//   row(w, n)                row n of the weight
//   load(row, k)             elements k ... k + kLanes - 1, k a multiple of kLanes
//   load_some(row, k, count) the first count < kLanes of them, then zeros; absent if rows are whole lanes
//
// Tiles of up to kTileRows rows by kTileOutputs outputs (lanes.h) share loads. An output element has a vector
// of partial sums of its own in every tile shape, so its bits do not depend on the shape.

#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "gpu/cpu/formats/int8_product.h"
#include "gpu/cpu/formats/quants.h"
#include "gpu/cpu/lanes.h"
#include "gpu/cpu/tables.h"
#include "gpu/kernels.h"
#include "gpu/weights/weight.h"

namespace reprise::gpu {
namespace {

template <class Element, Lanes (*kLoad)(const Element*)>
struct FloatReader {
  using Row = const Element*;

  static Row row(const WeightView& w, std::size_t n) {
    return static_cast<const Element*>(w.data) + n * w.columns;
  }
  static Lanes load(Row row, std::size_t k) { return kLoad(row + k); }
  static Lanes load_some(Row row, std::size_t k, std::size_t count) {
    Element padded[8] = {};
    std::memcpy(padded, row + k, count * sizeof(Element));
    return kLoad(padded);
  }
};

using F32Reader = FloatReader<float, Lanes::load>;
using F16Reader = FloatReader<std::uint16_t, Lanes::load_f16>;
using BF16Reader = FloatReader<std::uint16_t, Lanes::load_bf16>;

/// FP8 e4m3 with separate f32 scales, per tile of 128 x 128 elements or per row.
///
/// Shifted to the positions of an f16's fields, the bits of an e4m3 (4 exponent, 3 mantissa) are the value
/// times 2^-8, subnormals included, so widening is exact and needs no table.
template <std::size_t kTileColumns>
struct F8Reader {
  struct Row {
    const std::uint8_t* elements;
    const float* scales;
  };

  static Row row(const WeightView& w, std::size_t n) {
    return {reinterpret_cast<const std::uint8_t*>(w.row(n)), reinterpret_cast<const float*>(w.scale_row(n))};
  }
  static Lanes load(const Row& row, std::size_t k) {
    return widened(row.elements + k) * Lanes::set(row.scales[k / kTileColumns]);
  }
  static Lanes load_some(const Row& row, std::size_t k, std::size_t count) {
    std::uint8_t padded[kLanes] = {};
    std::memcpy(padded, row.elements + k, count);
    return widened(padded) * Lanes::set(row.scales[k / kTileColumns]);
  }

 private:
  static Lanes widened(const std::uint8_t* elements) {
    std::uint16_t halves[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) {
      const std::uint32_t bits = elements[i];
      halves[i] = static_cast<std::uint16_t>((bits & 0x80U) << 8 | (bits & 0x7fU) << 7);
    }
    return Lanes::load_f16(halves) * Lanes::set(0x1p8F);
  }
};

using F8TileReader = F8Reader<kF8TileFormat.scales.columns>;
using F8RowReader = F8Reader<kF8RowFormat.scales.columns>;

template <class Reader>
inline constexpr bool kHasRaggedRows = requires(typename Reader::Row row) {
  Reader::load_some(row, std::size_t{}, std::size_t{});
};

template <class Reader, int kRows, int kOutputs>
inline void widened_tile(const float* x, const typename Reader::Row (&w)[kOutputs], std::size_t depth,
                         float* y, std::size_t y_stride) {
  Lanes sums[kRows][kOutputs];
  const auto for_each_sum = [](auto work) __attribute__((always_inline)) {
    for_each_index<kRows>([&](auto i) __attribute__((always_inline)) {
      for_each_index<kOutputs>([&](auto j) __attribute__((always_inline)) { work(i, j); });
    });
  };
  for_each_sum([&](auto i, auto j) __attribute__((always_inline)) { sums[i][j] = Lanes::set(0.0F); });
  const auto step = [&](auto load_output, auto load_row) __attribute__((always_inline)) {
    Lanes b[kOutputs];
    for_each_index<kOutputs>([&](auto j) __attribute__((always_inline)) { b[j] = load_output(w[j]); });
    for_each_index<kRows>([&](auto i) __attribute__((always_inline)) {
      const Lanes a = load_row(x + i * depth);
      for_each_index<kOutputs>([&](auto j)
                                   __attribute__((always_inline)) { sums[i][j] = fma(a, b[j], sums[i][j]); });
    });
  };
  std::size_t k = 0;
  for (; k + kLanes <= depth; k += kLanes) {
    step([&](auto row) { return Reader::load(row, k); },
         [&](const float* row) { return Lanes::load(row + k); });
  }
  if constexpr (kHasRaggedRows<Reader>) {
    if (k < depth) {
      step([&](auto row) { return Reader::load_some(row, k, depth - k); },
           [&](const float* row) { return load_some(row + k, depth - k); });
    }
  }
  for_each_sum([&](auto i, auto j) __attribute__((always_inline)) { y[i * y_stride + j] = sum(sums[i][j]); });
}

/// Computes outputs [n_begin, n_end) of kRows rows: kOutputs at once, then one by one.
template <class Reader, int kRows, int kOutputs>
inline void widened_outputs(const float* x, const WeightView& w, std::size_t n_begin, std::size_t n_end,
                            float* y, std::size_t y_stride) {
  std::size_t n = n_begin;
  for (; n + kOutputs <= n_end; n += kOutputs) {
    typename Reader::Row rows[kOutputs];
    for (int j = 0; j < kOutputs; ++j) rows[j] = Reader::row(w, n + static_cast<std::size_t>(j));
    widened_tile<Reader, kRows, kOutputs>(x, rows, w.columns, y + n, y_stride);
  }
  if constexpr (kOutputs > 1) {
    if (n < n_end) widened_outputs<Reader, kRows, 1>(x, w, n, n_end, y, y_stride);
  }
}

/// Computes all m rows in tiles of kRows, the remainder in a smaller tile.
template <class Reader, int kRows, int kOutputs>
inline void widened_rows(const float* x, std::size_t m, const WeightView& w, std::size_t n_begin,
                         std::size_t n_end, float* y, std::size_t y_stride) {
  std::size_t i = 0;
  for (; i + kRows <= m; i += kRows) {
    widened_outputs<Reader, kRows, kOutputs>(x + i * w.columns, w, n_begin, n_end, y + i * y_stride,
                                             y_stride);
  }
  if constexpr (kRows > 1) {
    if (i < m) {
      widened_rows<Reader, kRows - 1, kOutputs>(x + i * w.columns, m - i, w, n_begin, n_end, y + i * y_stride,
                                                y_stride);
    }
  }
}

/// Outputs per group: their weights stay in L2 while all rows pass; a tile of rows stays in L1.
inline constexpr std::size_t kWidenedGroup = 32;

template <class Reader>
void widened_multiply(const void* activations, std::size_t m, const WeightView& w, float* y,
                      std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  const auto* x = static_cast<const float*>(activations);
  if (m <= 2) {  // bound by reading the weights: more outputs at once
    return widened_rows<Reader, 2, 4>(x, m, w, n_begin, n_end, y, y_stride);
  }
  for (std::size_t n = n_begin; n < n_end; n += kWidenedGroup) {
    const std::size_t end = std::min(n + kWidenedGroup, n_end);
    widened_rows<Reader, kTileRows, kTileOutputs>(x, m, w, n, end, y, y_stride);
  }
}

template <class Reader>
void widen_row(const WeightView& w, std::size_t index, float* y) {
  const typename Reader::Row row = Reader::row(w, index);
  std::size_t k = 0;
  for (; k + kLanes <= w.columns; k += kLanes) Reader::load(row, k).store(y + k);
  if constexpr (kHasRaggedRows<Reader>) {
    if (k < w.columns) store_some(Reader::load_some(row, k, w.columns - k), y + k, w.columns - k);
  }
}

/// A format's table row with the exact product as `fast`.
template <class Reader>
constexpr FormatKernels widened_format(const WeightFormat& format) {
  const Product product{.activations = &kAsF32, .multiply = widened_multiply<Reader>};
  return {.format = &format, .widen_row = widen_row<Reader>, .exact = product, .fast = product};
}

/// A quantized format's table row, with the portable int8 product as `fast`.
template <class Quant>
constexpr FormatKernels quant_format() {
  FormatKernels row = widened_format<QuantReader<Quant>>(Quant::kFormat);
  row.fast = int8_product<Quant>();
  return row;
}

constexpr auto kFormats = with_gguf_quants([]<class... Quant>() {
  return std::to_array<FormatKernels>(
      {widened_format<F32Reader>(kF32Format), widened_format<F16Reader>(kF16Format),
       widened_format<BF16Reader>(kBF16Format), widened_format<F8TileReader>(kF8TileFormat),
       widened_format<F8RowReader>(kF8RowFormat), quant_format<Quant>()..., quant_format<Int4>()});
});
static_assert(
    std::equal(kFormats.begin(), kFormats.end(), std::begin(kWeightFormats), std::end(kWeightFormats),
               [](const FormatKernels& row, const WeightFormat* format) { return row.format == format; }),
    "kFormats has a row for each format of kWeightFormats, in that order");

template <std::size_t kCount>
constexpr std::array<FormatKernels, kCount> with_fast(std::array<FormatKernels, kCount> formats,
                                                      const WeightFormat& format, const Product& fast) {
  for (FormatKernels& row : formats) {
    if (row.format == &format) row.fast = fast;
  }
  return formats;
}

template <class MakeProduct>
constexpr auto products_of_quants(MakeProduct product) {
  return with_gguf_quants([&]<class... Quant>() constexpr {
    return std::array{FastProduct{&Quant::kFormat, product.template operator()<Quant>()}...};
  });
}

template <std::size_t kCount, class... More>
constexpr std::array<FastProduct, kCount + sizeof...(More)> with_more(
    const std::array<FastProduct, kCount>& products, const More&... more) {
  std::array<FastProduct, kCount + sizeof...(More)> all{};
  std::size_t count = 0;
  for (const FastProduct& product : products) all[count++] = product;
  ((all[count++] = more), ...);
  return all;
}

template <std::size_t kCount, std::size_t kProducts>
constexpr std::array<FormatKernels, kCount> with_products(
    std::array<FormatKernels, kCount> formats, const std::array<FastProduct, kProducts>& products) {
  for (const FastProduct& fast : products) formats = with_fast(formats, *fast.format, fast.product);
  return formats;
}

}  // namespace
}  // namespace reprise::gpu
