// The exact product and the row reader of every format: weights widened in registers, f32 arithmetic, on lanes.
// Included by the kernel sources, with internal linkage.
//
// A format gives a Reader, and has both:
//   Row                      where a row of the weight lies: pointers
//   row(w, n)                row n of the weight
//   load(row, k)             elements k ... k + kLanes - 1, k a multiple of kLanes
//   load_some(row, k, count) the first count < kLanes of them, then zeros; absent where rows are whole lanes
//
// Tiles of up to kTileRows rows by kTileOutputs outputs (lanes.h) share loads; each element of the result has
// one vector of partial sums of its own in every tile shape, so its bits do not depend on the shape it fell
// into.

#pragma once

#include <algorithm>

#include "gpu/cpu/lanes.h"
#include "gpu/cpu/straight_code.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

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

/// Outputs n_begin ... n_end - 1 of kRows rows: kOutputs at once, then one by one.
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

/// All m rows in tiles of kRows, those left over in a smaller one.
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

/// Outputs whose weights stay in the second cache while the rows pass by, a tile of which stays in the first.
inline constexpr std::size_t kWidenedGroup = 32;

template <class Reader>
void widened_multiply(const void* activations, std::size_t m, const WeightView& w, float* y,
                      std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  const auto* x = static_cast<const float*>(activations);
  if (m <= 2) {  // more outputs at once, for the weights' way from memory counts
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

/// A format's row of a table, with nothing faster than the exact product.
template <class Reader>
constexpr FormatKernels widened_format(const WeightFormat& format) {
  const Product product{.activations = &kAsF32, .multiply = widened_multiply<Reader>};
  return {.format = &format, .widen_row = widen_row<Reader>, .exact = product, .fast = product};
}

}  // namespace
}  // namespace reprise::gpu
