// The fast product of F32, F16 and BF16 on x86-64: weights widened once into panels whose lanes are outputs, then f32
// arithmetic for all rows of x. Included by the kernel sources, with internal linkage.
//
// Order: y[m, n] is a sum over blocks of kPanelDepth elements of k, in their order; each block's sum starts at zero and
// adds x[m, k] w[n, k] for its k upwards with fused multiply-adds. No lane ever meets another, so these are the bits
// for every number of rows, every range and both widths of vectors.
//
// Where things lie: the panels of one group of outputs and one block of k (128 KiB with AVX-512) in L2, filled from
// the weight as it is stored and used by all rows; the rows of a tile, at that block of k, in L1. Nothing is kept
// between calls.

#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "gpu/cpu/formats.h"
#include "gpu/cpu/x86_vectors.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

inline constexpr std::size_t kPanelDepth = 256;           // elements of k whose sum starts at zero
inline constexpr std::size_t kPanelOutputs = 2 * kWide;   // of a panel
inline constexpr std::size_t kPanels = 4;                 // of a group
inline constexpr std::size_t kPanelTile = 3 * kWide / 4;  // rows whose sums of one panel fit the registers
inline constexpr std::size_t kPanelRow =
    kPanelDepth + 16;                               // of x, copied: no two rows begin in one set of L1
inline constexpr std::size_t kFewRows = kWide / 8;  // rows whose sums of a whole group fit

using PanelGroup = float[kPanels][kPanelDepth][kPanelOutputs];
using PanelRows = float[kPanelTile][kPanelRow];

/// Asks for a line that is needed a block later, `ahead` bytes from here; at a weight's end there is none, which is
/// no harm.
inline void ask_for(const void* here, std::size_t ahead) {
  _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(here) + ahead), _MM_HINT_T1);
}

/// Columns [k, k + depth) of rows [n, n + outputs), outputs <= kWide, into kWide lanes of a panel; rows that do not
/// exist repeat the last. `ahead`: elements from a row to what is needed next.
template <class Columns>
inline void fill_lanes(const typename Columns::Element* w, std::size_t row_length, std::size_t outputs,
                       std::size_t depth, std::size_t ahead, float* to) {
  using Element = typename Columns::Element;
  constexpr std::size_t kStep = Columns::kStep;
  const Element* rows[kWide];
  for (std::size_t r = 0; r < kWide; ++r) rows[r] = w + std::min(r, outputs - 1) * row_length;
  std::size_t k = 0;
  for (; k + kStep <= depth; k += kStep, to += kStep * kPanelOutputs) {
    for (const Element* row : rows) ask_for(row, ahead * sizeof(Element));
    Columns::turn(rows, to, kPanelOutputs);
    for (const Element*& row : rows) row += kStep;
  }
  if (k == depth) return;
  Element padded[kWide][kStep] = {};
  for (std::size_t r = 0; r < kWide; ++r) {
    std::memcpy(padded[r], rows[r], (depth - k) * sizeof(Element));
    rows[r] = padded[r];
  }
  Columns::turn(rows, to, kPanelOutputs);
}

/// y[kRows, kPanelCount panels] = or += x w, over one block of k.
template <int kRows, int kPanelCount>
inline void panel_tile(const PanelRows& x, const float (*panels)[kPanelDepth][kPanelOutputs],
                       std::size_t depth, bool add, float* y, std::size_t y_stride) {
  constexpr int kVectors = 2 * kPanelCount;
  Wide sums[kRows][kVectors];
  for (auto& row : sums) {
    for (Wide& s : row) s = Wide::set(0.0F);
  }
  for (std::size_t k = 0; k < depth; ++k) {
    Wide w[kVectors];
    for (int v = 0; v < kVectors; ++v) w[v] = Wide::load(&panels[v / 2][k][v % 2 * kWide]);
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

using PanelTile = void (*)(const PanelRows& x, const float (*panels)[kPanelDepth][kPanelOutputs],
                           std::size_t depth, bool add, float* y, std::size_t y_stride);

/// The tile of 1, 2, ... rows by so many panels.
template <int kPanelCount, int... kRows>
constexpr auto panel_tiles(std::integer_sequence<int, kRows...>) {
  return std::array<PanelTile, sizeof...(kRows)>{panel_tile<kRows + 1, kPanelCount>...};
}
constexpr auto kOnePanelTiles = panel_tiles<1>(std::make_integer_sequence<int, kPanelTile>());
constexpr auto kWideTiles = panel_tiles<kPanels>(std::make_integer_sequence<int, kFewRows>());

/// One block of k of `outputs` outputs for `rows` rows, at most kPanelTile of them.
inline void multiply_group(const PanelRows& x, std::size_t rows, const PanelGroup& group, std::size_t outputs,
                           std::size_t depth, bool add, float* y, std::size_t y_stride) {
  if (rows <= kFewRows && outputs == kPanels * kPanelOutputs) {
    kWideTiles[rows - 1](x, group, depth, add, y, y_stride);
    return;
  }
  const PanelTile tile = kOnePanelTiles[rows - 1];
  std::size_t n = 0;
  const auto* panel = &group[0];
  for (; n + kPanelOutputs <= outputs; n += kPanelOutputs) tile(x, panel++, depth, add, y + n, y_stride);
  if (n == outputs) return;
  // A panel of which some outputs do not exist: by way of a tile of its own.
  float whole[kPanelTile][kPanelOutputs] = {};
  const std::size_t bytes = (outputs - n) * sizeof(float);
  if (add) {
    for (std::size_t i = 0; i < rows; ++i) std::memcpy(whole[i], y + i * y_stride + n, bytes);
  }
  tile(x, panel, depth, add, whole[0], kPanelOutputs);
  for (std::size_t i = 0; i < rows; ++i) std::memcpy(y + i * y_stride + n, whole[i], bytes);
}

template <class Columns>
void multiply_by_panels(const void* activations, std::size_t m, const WeightView& w, float* y,
                        std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  const std::size_t length = w.columns;
  const auto* x = static_cast<const float*>(activations);
  const auto* weights = static_cast<const typename Columns::Element*>(w.data);
  alignas(64) PanelGroup group;
  alignas(64) PanelRows some;
  const std::size_t tiles = (m + kPanelTile - 1) / kPanelTile;
  for (std::size_t n = n_begin; n < n_end; n += kPanels * kPanelOutputs) {
    const std::size_t outputs = std::min(kPanels * kPanelOutputs, n_end - n);
    for (std::size_t k = 0; k < length; k += kPanelDepth) {
      const std::size_t depth = std::min(kPanelDepth, length - k);
      // Next is the block after this one, after a row's last the first of the next group.
      const std::size_t ahead = k + kPanelDepth < length ? kPanelDepth : kPanels * kPanelOutputs * length - k;
      for (std::size_t lanes = 0; lanes < outputs || lanes % kPanelOutputs != 0; lanes += kWide) {
        const std::size_t first = std::min(lanes, outputs - 1);
        fill_lanes<Columns>(weights + (n + first) * length + k, length, std::min(kWide, outputs - first),
                            depth, ahead, &group[lanes / kPanelOutputs][0][lanes % kPanelOutputs]);
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
constexpr Product kByPanels{
    .activations = &kAsF32, .multiply = multiply_by_panels<Columns>, .outputs_at_once = kPanelOutputs};

/// `formats` with these products for those that have them.
template <std::size_t kCount>
constexpr std::array<FormatKernels, kCount> with_panels(std::array<FormatKernels, kCount> formats) {
  formats = with_fast(formats, kF32Format, kByPanels<F32Columns>);
  formats = with_fast(formats, kF16Format, kByPanels<F16Columns>);
  return with_fast(formats, kBF16Format, kByPanels<BF16Columns>);
}

}  // namespace
}  // namespace reprise::gpu
