// The f32 matrix product, on lanes. Included by the kernel sources, with internal linkage.
//
// Tiles of up to kTileRows rows by kTileOutputs outputs (lanes.h) share loads; each element of the result has
// one vector of partial sums of its own in every tile shape, so its bits do not depend on the shape it fell
// into.

#pragma once

#include "gpu/cpu/lanes.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

struct LoadF32 {
  using Element = float;
  static Lanes load(const float* p) { return Lanes::load(p); }
};
struct LoadF16 {
  using Element = std::uint16_t;
  static Lanes load(const std::uint16_t* p) { return Lanes::load_f16(p); }
};
struct LoadBF16 {
  using Element = std::uint16_t;
  static Lanes load(const std::uint16_t* p) { return Lanes::load_bf16(p); }
};

template <class Load>
inline Lanes load_some_of(const typename Load::Element* p, std::size_t count) {
  typename Load::Element padded[kLanes] = {};
  std::memcpy(padded, p, count * sizeof(*p));
  return Load::load(padded);
}

template <class Load, int kRows, int kOutputs>
inline void matmul_tile(const float* x, const typename Load::Element* w, std::size_t depth, float* y,
                        std::size_t y_stride) {
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
    for (int j = 0; j < kOutputs; ++j) b[j] = Load::load(w + j * depth + k);
    step(b, [&](int i) { return Lanes::load(x + i * depth + k); });
  }
  if (k < depth) {
    for (int j = 0; j < kOutputs; ++j) b[j] = load_some_of<Load>(w + j * depth + k, depth - k);
    step(b, [&](int i) { return load_some(x + i * depth + k, depth - k); });
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kOutputs; ++j) y[i * y_stride + j] = sum(sums[i][j]);
  }
}

/// Rows in tiles of kRows, those left over in smaller ones.
template <class Load, int kRows, int kOutputs>
inline void matmul_outputs(const float* x, std::size_t m, const typename Load::Element* w, std::size_t depth,
                           float* y, std::size_t y_stride) {
  std::size_t i = 0;
  for (; i + kRows <= m; i += kRows) {
    matmul_tile<Load, kRows, kOutputs>(x + i * depth, w, depth, y + i * y_stride, y_stride);
  }
  if constexpr (kRows > 1) {
    if (i < m)
      matmul_outputs<Load, kRows - 1, kOutputs>(x + i * depth, m - i, w, depth, y + i * y_stride, y_stride);
  }
}

template <class Load>
void matmul_of(const float* x, std::size_t m, const Matrix& w, float* y, std::size_t y_stride,
               std::size_t n_begin, std::size_t n_end) {
  const std::size_t depth = w.columns;
  const auto* rows = static_cast<const typename Load::Element*>(w.data);
  std::size_t n = n_begin;
  if (m <= 2) {  // more outputs at once, for the weights' way from memory counts
    for (; n + 4 <= n_end; n += 4) matmul_outputs<Load, 2, 4>(x, m, rows + n * depth, depth, y + n, y_stride);
  } else {
    for (; n + kTileOutputs <= n_end; n += kTileOutputs) {
      matmul_outputs<Load, kTileRows, kTileOutputs>(x, m, rows + n * depth, depth, y + n, y_stride);
    }
  }
  for (; n < n_end; ++n) matmul_outputs<Load, kTileRows, 1>(x, m, rows + n * depth, depth, y + n, y_stride);
}

void matmul(const float* x, std::size_t m, const Matrix& w, float* y, std::size_t y_stride,
            std::size_t n_begin, std::size_t n_end) {
  switch (w.type) {
    case ElementType::kF32:
      return matmul_of<LoadF32>(x, m, w, y, y_stride, n_begin, n_end);
    case ElementType::kF16:
      return matmul_of<LoadF16>(x, m, w, y, y_stride, n_begin, n_end);
    case ElementType::kBF16:
      return matmul_of<LoadBF16>(x, m, w, y, y_stride, n_begin, n_end);
  }
}

}  // namespace
}  // namespace reprise::gpu
