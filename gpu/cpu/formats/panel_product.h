// The fast GEMM of F32, F16 and BF16 on x86-64: weights are widened into panels whose lanes are outputs, then
// multiplied in f32.
//
// Bits: y[m, n] is a sum over blocks of kPanelDepth elements of k in ascending order; each block's sum starts
// at zero and adds x[m, k] w[n, k] in ascending k with fused multiply-adds. There are no horizontal
// operations, so the bits are the same for every number of rows, every range and both vector widths.
//
// More than kFewRows rows: the panels of a group of outputs and a block of k (256 KiB with AVX-512) stay in
// L2 and serve all rows; the rows of a tile, for that block of k, stay in L1. Fewer rows: reading the weight
// dominates, so its rows are read sequentially, several at a time, and multiplied as they are transposed.

#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "gpu/cpu/formats/formats.h"
#include "gpu/cpu/x86/x86_vectors.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

/// Transposes a format's rows: turn() reads kStep elements of kWide rows and calls take(k, column) for
/// ascending k in [0, kStep), where column has the widened element k of each row.
struct F32Columns {
  using Element = float;
  static constexpr std::size_t kStep = kWide;

  template <class Take>
  static void transpose_step(const float* const (&rows)[kWide], Take take) {
    WideBits v[kWide];
    for (std::size_t r = 0; r < kWide; ++r) v[r] = load_bits(rows[r]);
    transpose(v);
    for (std::size_t k = 0; k < kWide; ++k) take(k, as_floats(v[k]));
  }
};

struct F16Columns {
  using Element = std::uint16_t;
  static constexpr std::size_t kStep = kWide;

  template <class Take>
  static void transpose_step(const std::uint16_t* const (&rows)[kWide], Take take) {
    WideBits v[kWide];
    for (std::size_t r = 0; r < kWide; ++r) v[r] = widen_f16(rows[r]);
    transpose(v);
    for (std::size_t k = 0; k < kWide; ++k) take(k, as_floats(v[k]));
  }
};

/// Transposes pairs of elements as 32-bit words, and widens afterwards.
struct BF16Columns {
  using Element = std::uint16_t;
  static constexpr std::size_t kStep = 2 * kWide;

  template <class Take>
  static void transpose_step(const std::uint16_t* const (&rows)[kWide], Take take) {
    WideBits v[kWide];
    for (std::size_t r = 0; r < kWide; ++r) v[r] = load_bits(rows[r]);
    transpose(v);
    for (std::size_t k = 0; k < kWide; ++k) {
      take(2 * k, as_floats(lower_halves_up(v[k])));
      take(2 * k + 1, as_floats(upper_halves(v[k])));
    }
  }
};

inline constexpr std::size_t kPanelDepth = 256;             // elements of k per block; fixes the bits
inline constexpr std::size_t kPanelOutputs = 2 * kWide;     // outputs per panel
inline constexpr std::size_t kPanels = 8;                   // panels per group
inline constexpr std::size_t kPanelTile = 3 * kWide / 4;    // rows per tile, to fit the registers
inline constexpr std::size_t kPanelRow = kPanelDepth + 16;  // stride: rows start in different sets of L1
inline constexpr std::size_t kFewRows = kWide / 2;          // max rows without panels
inline constexpr std::size_t kAlong = 1024;                 // prefetch distance in a weight's row, in bytes

using Panel = float[kPanelDepth][kPanelOutputs];
using PanelGroup = Panel[kPanels];
using PanelRows = float[kPanelTile][kPanelRow];

/// Pointers to kWide rows of a weight from `first`; missing rows repeat the last.
template <class Element>
struct RowsOfWeight {
  const Element* rows[kWide];

  RowsOfWeight(const Element* first, std::size_t length, std::size_t count) {
    for (std::size_t r = 0; r < kWide; ++r) rows[r] = first + std::min(r, count - 1) * length;
  }
};

/// Calls take(k, column) for the next `depth` elements of the rows and advances them. `ahead`: prefetch
/// distance in elements.
template <class Columns, class Take>
inline void transpose_rows(RowsOfWeight<typename Columns::Element>& w, std::size_t depth, std::size_t ahead,
                           Take take) {
  using Element = typename Columns::Element;
  constexpr std::size_t kStep = Columns::kStep;
  std::size_t k = 0;
  for (; k + kStep <= depth; k += kStep) {
    for (const Element* row : w.rows) prefetch(row, ahead * sizeof(Element));
    Columns::transpose_step(w.rows, [&](std::size_t inside, Wide column) { take(k + inside, column); });
    for (const Element*& row : w.rows) row += kStep;
  }
  if (k == depth) return;
  Element padded[kWide][kStep] = {};
  const Element* rows[kWide];
  for (std::size_t r = 0; r < kWide; ++r) {
    std::memcpy(padded[r], w.rows[r], (depth - k) * sizeof(Element));
    rows[r] = padded[r];
    w.rows[r] += depth - k;
  }
  Columns::transpose_step(rows, [&](std::size_t inside, Wide column) {
    if (k + inside < depth) take(k + inside, column);
  });
}

/// Computes y[kRows, kWide], of which `outputs` outputs exist, without panels.
template <class Columns, int kRows>
inline void few_rows_tile(const float* x, const typename Columns::Element* w, std::size_t length,
                          std::size_t outputs, float* y, std::size_t y_stride) {
  RowsOfWeight<typename Columns::Element> rows(w, length, outputs);
  Wide totals[kRows];
  for (Wide& total : totals) total = Wide::set(0.0F);
  for (std::size_t k = 0; k < length; k += kPanelDepth, x += kPanelDepth) {
    Wide sums[kRows];
    for (Wide& s : sums) s = Wide::set(0.0F);
    // Past the end of a row, prefetch the start of the next tile's row.
    constexpr std::size_t kAhead = kAlong / sizeof(typename Columns::Element);
    const std::size_t ahead = k + kAhead < length ? kAhead : kAhead + (kWide - 1) * length;
    transpose_rows<Columns>(rows, std::min(kPanelDepth, length - k), ahead,
                            [&](std::size_t inside, Wide column) {
                              for (int i = 0; i < kRows; ++i)
                                sums[i] = fma(Wide::set(x[i * length + inside]), column, sums[i]);
                            });
    for (int i = 0; i < kRows; ++i) totals[i] = k == 0 ? sums[i] : totals[i] + sums[i];
  }
  for (int i = 0; i < kRows; ++i, y += y_stride) {
    if (outputs >= kWide) {
      totals[i].store(y);
    } else {
      float all[kWide];
      totals[i].store(all);
      std::memcpy(y, all, outputs * sizeof(float));
    }
  }
}

template <class Columns, int kRows>
void multiply_few_rows(const float* x, const WeightView& w, float* y, std::size_t y_stride,
                       std::size_t n_begin, std::size_t n_end) {
  const auto* weights = static_cast<const typename Columns::Element*>(w.data);
  for (std::size_t n = n_begin; n < n_end; n += kWide) {
    few_rows_tile<Columns, kRows>(x, weights + n * w.columns, w.columns, n_end - n, y + n, y_stride);
  }
}

/// Computes (or, if `add`, accumulates) y[kRows, kPanelOutputs] over one block of k.
template <int kRows>
void panel_tile(const PanelRows& x, const Panel& panel, std::size_t depth, bool add, float* y,
                std::size_t y_stride) {
  constexpr int kVectors = 2;
  Wide sums[kRows][kVectors];
  for (auto& row : sums) {
    for (Wide& s : row) s = Wide::set(0.0F);
  }
  for (std::size_t k = 0; k < depth; ++k) {
    Wide w[kVectors];
    for (int v = 0; v < kVectors; ++v) w[v] = Wide::load(&panel[k][v * kWide]);
    for (int i = 0; i < kRows; ++i) {
      const Wide a = Wide::set(x[i][k]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = fma(a, w[v], sums[i][v]);
    }
  }
  for (int i = 0; i < kRows; ++i, y += y_stride) {
    for (int v = 0; v < kVectors; ++v) {
      float* to = y + v * kWide;
      (add ? Wide::load(to) + sums[i][v] : sums[i][v]).store(to);
    }
  }
}

constexpr auto kPanelTiles = []<int... kRows>(std::integer_sequence<int, kRows...>) {
  return std::array{panel_tile<kRows + 1>...};
}
(std::make_integer_sequence<int, kPanelTile>());

/// Multiplies one block of k for `outputs` outputs and `rows` <= kPanelTile rows.
inline void multiply_group(const PanelRows& x, std::size_t rows, const PanelGroup& group, std::size_t outputs,
                           std::size_t depth, bool add, float* y, std::size_t y_stride) {
  const auto tile = kPanelTiles[rows - 1];
  std::size_t n = 0;
  const Panel* panel = group;
  for (; n + kPanelOutputs <= outputs; n += kPanelOutputs) tile(x, *panel++, depth, add, y + n, y_stride);
  if (n == outputs) return;
  float whole[kPanelTile][kPanelOutputs] = {};
  const std::size_t bytes = (outputs - n) * sizeof(float);
  if (add) {
    for (std::size_t i = 0; i < rows; ++i) std::memcpy(whole[i], y + i * y_stride + n, bytes);
  }
  tile(x, *panel, depth, add, whole[0], kPanelOutputs);
  for (std::size_t i = 0; i < rows; ++i) std::memcpy(y + i * y_stride + n, whole[i], bytes);
}

template <class Columns>
void multiply_many_rows(const float* x, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                        std::size_t n_begin, std::size_t n_end) {
  const std::size_t length = w.columns;
  const auto* weights = static_cast<const typename Columns::Element*>(w.data);
  alignas(64) PanelGroup group;
  alignas(64) PanelRows some;
  const std::size_t tiles = (m + kPanelTile - 1) / kPanelTile;
  for (std::size_t n = n_begin; n < n_end; n += kPanels * kPanelOutputs) {
    const std::size_t outputs = std::min(kPanels * kPanelOutputs, n_end - n);
    for (std::size_t k = 0; k < length; k += kPanelDepth) {
      const std::size_t depth = std::min(kPanelDepth, length - k);
      // Prefetch the next block of k; at the end of a row, the first block of the next group.
      const std::size_t ahead = k + kPanelDepth < length ? kPanelDepth : kPanels * kPanelOutputs * length - k;
      for (std::size_t lanes = 0; lanes < outputs || lanes % kPanelOutputs != 0; lanes += kWide) {
        const std::size_t first = std::min(lanes, outputs - 1);
        RowsOfWeight rows(weights + (n + first) * length + k, length, outputs - first);
        float* to = &group[lanes / kPanelOutputs][0][lanes % kPanelOutputs];
        transpose_rows<Columns>(rows, depth, ahead, [&](std::size_t inside, Wide column) {
          column.store(to + inside * kPanelOutputs);
        });
      }
      for (std::size_t tile = 0; tile < tiles; ++tile) {
        const std::size_t first = m * tile / tiles;
        const std::size_t rows = m * (tile + 1) / tiles - first;
        for (std::size_t i = 0; i < rows; ++i) {
          std::memcpy(some[i], x + (first + i) * length + k, depth * sizeof(float));
        }
        multiply_group(some, rows, group, outputs, depth, k != 0, y + first * y_stride + n, y_stride);
      }
    }
  }
}

template <class Columns>
void multiply_by_panels(const void* activations, std::size_t m, const WeightView& w, float* y,
                        std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  constexpr auto kFew = []<int... kRows>(std::integer_sequence<int, kRows...>) {
    return std::array{multiply_few_rows<Columns, kRows + 1>...};
  }
  (std::make_integer_sequence<int, kFewRows>());
  const auto* x = static_cast<const float*>(activations);
  if (m == 0) return;
  if (m <= kFewRows) {
    kFew[m - 1](x, w, y, y_stride, n_begin, n_end);
  } else {
    multiply_many_rows<Columns>(x, m, w, y, y_stride, n_begin, n_end);
  }
}

template <class Columns>
constexpr Product kByPanels{
    .activations = &kAsF32, .multiply = multiply_by_panels<Columns>, .outputs_at_once = kPanelOutputs};

template <std::size_t kCount>
constexpr std::array<FormatKernels, kCount> with_panels(std::array<FormatKernels, kCount> formats) {
  formats = with_fast(formats, kF32Format, kByPanels<F32Columns>);
  formats = with_fast(formats, kF16Format, kByPanels<F16Columns>);
  return with_fast(formats, kBF16Format, kByPanels<BF16Columns>);
}

}  // namespace
}  // namespace reprise::gpu
