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

#include "gpu/cpu/lanes.h"
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
  for (auto& row : sums) {
    for (Lanes& s : row) s = Lanes::set(0.0F);
  }
  const auto step = [&](const Lanes(&b)[kOutputs], auto load_row) {
    for (int i = 0; i < kRows; ++i) {
      const Lanes a = load_row(i);
      for (int j = 0; j < kOutputs; ++j) sums[i][j] = fma(a, b[j], sums[i][j]);
    }
  };
  std::size_t k = 0;
  Lanes b[kOutputs];
  for (; k + kLanes <= depth; k += kLanes) {
    for (int j = 0; j < kOutputs; ++j) b[j] = Reader::load(w[j], k);
    step(b, [&](int i) { return Lanes::load(x + i * depth + k); });
  }
  if constexpr (kHasRaggedRows<Reader>) {
    if (k < depth) {
      for (int j = 0; j < kOutputs; ++j) b[j] = Reader::load_some(w[j], k, depth - k);
      step(b, [&](int i) { return load_some(x + i * depth + k, depth - k); });
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kOutputs; ++j) y[i * y_stride + j] = sum(sums[i][j]);
  }
}

/// Rows in tiles of kRows, those left over in smaller ones.
template <class Reader, int kRows, int kOutputs>
inline void widened_rows(const float* x, std::size_t m, const typename Reader::Row (&w)[kOutputs],
                         std::size_t depth, float* y, std::size_t y_stride) {
  std::size_t i = 0;
  for (; i + kRows <= m; i += kRows) {
    widened_tile<Reader, kRows, kOutputs>(x + i * depth, w, depth, y + i * y_stride, y_stride);
  }
  if constexpr (kRows > 1) {
    if (i < m) {
      widened_rows<Reader, kRows - 1, kOutputs>(x + i * depth, m - i, w, depth, y + i * y_stride, y_stride);
    }
  }
}

/// Outputs n ... n + kOutputs - 1.
template <class Reader, int kRows, int kOutputs>
inline void widened_outputs(const float* x, std::size_t m, const WeightView& w, std::size_t n, float* y,
                            std::size_t y_stride) {
  typename Reader::Row rows[kOutputs];
  for (int j = 0; j < kOutputs; ++j) rows[j] = Reader::row(w, n + static_cast<std::size_t>(j));
  widened_rows<Reader, kRows, kOutputs>(x, m, rows, w.columns, y + n, y_stride);
}

template <class Reader>
void widened_multiply(const void* activations, std::size_t m, const WeightView& w, float* y,
                      std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  const auto* x = static_cast<const float*>(activations);
  std::size_t n = n_begin;
  if (m <= 2) {  // more outputs at once, for the weights' way from memory counts
    for (; n + 4 <= n_end; n += 4) widened_outputs<Reader, 2, 4>(x, m, w, n, y, y_stride);
  } else {
    for (; n + kTileOutputs <= n_end; n += kTileOutputs) {
      widened_outputs<Reader, kTileRows, kTileOutputs>(x, m, w, n, y, y_stride);
    }
  }
  for (; n < n_end; ++n) widened_outputs<Reader, kTileRows, 1>(x, m, w, n, y, y_stride);
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
