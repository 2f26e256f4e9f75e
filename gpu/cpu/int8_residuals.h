// Rows of x that eight bits hold badly, multiplied twice: as they were rounded, and what the rounding left. Included by
// the kernel sources, with internal linkage; portable, for every product of whole numbers with blocks of 256.
//
// One scale for 256 elements is coarse where a few of them are much larger than the others, as behind the gated norm of
// a linear attention. Whether a row is such a one is decided by that row alone, from its numbers: by the mean of q^2,
// each block weighted with the square of its scale, being under 400 (the largest element is then more than six times
// the root mean square, and rounding costs more than 1.4 % of it). Such a row is two rows to the product below,
//   x = q * scale + r,   r rounded as x was
// and its outputs are the sums of theirs. So the bits are a row's own, and the same on every table, as before.
//
// A prepared row is Int8Rows<256>'s, then that of r, then a word that says whether r is there, and 60 bytes of nothing.

#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "gpu/cpu/int8_activations.h"
#include "gpu/weight.h"

namespace reprise::gpu {
namespace {

struct RowsWithResiduals {
  using Row = Int8Rows<256>;
  static constexpr double kMeanSquare = 400;

  static constexpr std::size_t stride_of(std::size_t columns) { return 2 * Row::stride_of(columns) + 64; }

  /// Whether the rounded row is one that eight bits hold badly. Not for a row that is not finite.
  static bool is_coarse(const Row& row) {
    double squares = 0;
    double scales = 0;
    for (std::size_t b = 0; b < row.columns / 256; ++b) {
      const std::int8_t* q = row.q(0) + 256 * b;
      std::int32_t sum = 0;  // at most 256 * 127^2
      for (std::size_t k = 0; k < 256; ++k) sum += q[k] * q[k];
      const double scale = row.scales(0)[b];
      const double square = scale * scale;
      squares += square * sum;
      scales += square * 256;
    }
    return squares < kMeanSquare * scales;
  }

  static void prepare(const float* x, std::size_t rows, std::size_t columns, std::byte* to) {
    const std::size_t stride = Row::stride_of(columns);
    std::vector<float> residual;
    for (std::size_t i = 0; i < rows; ++i, x += columns, to += stride_of(columns)) {
      rows_to_int8<256>(x, 1, columns, to);
      const std::byte* const listed[] = {to};
      const Row row(listed, columns);
      const std::uint32_t is_there = is_coarse(row) ? 1 : 0;
      std::memcpy(to + 2 * stride, &is_there, sizeof(is_there));
      if (is_there == 0) continue;
      residual.resize(columns);
      for (std::size_t b = 0; b < columns / 256; ++b) {
        const float scale = row.scales(0)[b];
        for (std::size_t k = 256 * b; k < 256 * (b + 1); ++k) {
          const float rounded = static_cast<float>(row.q(0)[k]) * scale;
          residual[k] = x[k] - rounded;
        }
      }
      rows_to_int8<256>(residual.data(), 1, columns, to + stride);
    }
  }
};

constexpr ActivationForm kInt8RowsWithResiduals{
    .row_bytes = RowsWithResiduals::stride_of, .prepare = RowsWithResiduals::prepare, .int8_block = 256};

/// A product of whole numbers: as Product::multiply, of listed rows.
using MultiplyRows = void (*)(RowList x, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                              std::size_t n_begin, std::size_t n_end);

/// Rows that stand one after another.
template <MultiplyRows kMultiply, std::size_t kBlock>
void multiply_rows(const void* activations, std::size_t m, const WeightView& w, float* y,
                   std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  thread_local std::vector<const std::byte*> rows;
  rows.resize(m);
  const std::size_t stride = Int8Rows<kBlock>::stride_of(w.columns);
  for (std::size_t i = 0; i < m; ++i) rows[i] = static_cast<const std::byte*>(activations) + i * stride;
  kMultiply(rows.data(), m, w, y, y_stride, n_begin, n_end);
}

/// Rows with residuals. kMultiply: a product that takes Int8Rows<256>.
template <MultiplyRows kMultiply>
void multiply_with_residuals(const void* activations, std::size_t m, const WeightView& w, float* y,
                             std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  thread_local std::vector<const std::byte*> rows;  // then the residuals
  thread_local std::vector<float> outputs;
  thread_local std::vector<std::size_t> coarse;  // rows with residuals
  const std::size_t stride = Int8Rows<256>::stride_of(w.columns);
  rows.resize(m);
  coarse.clear();
  for (std::size_t i = 0; i < m; ++i) {
    rows[i] = static_cast<const std::byte*>(activations) + i * RowsWithResiduals::stride_of(w.columns);
    std::uint32_t is_there;
    std::memcpy(&is_there, rows[i] + 2 * stride, sizeof(is_there));
    if (is_there != 0) coarse.push_back(i);
  }
  if (coarse.empty()) return kMultiply(rows.data(), m, w, y, y_stride, n_begin, n_end);

  for (const std::size_t i : coarse) rows.push_back(rows[i] + stride);
  const std::size_t width = n_end - n_begin;
  outputs.resize(std::max(outputs.size(), rows.size() * width));
  kMultiply(rows.data(), rows.size(), w.part(n_begin, width), outputs.data(), width, 0, width);
  const float* residual = outputs.data() + m * width;
  auto next = coarse.begin();
  for (std::size_t i = 0; i < m; ++i) {
    const float* from = outputs.data() + i * width;
    float* to = y + i * y_stride + n_begin;
    if (next != coarse.end() && *next == i) {
      for (std::size_t n = 0; n < width; ++n) to[n] = from[n] + residual[n];
      residual += width;
      ++next;
    } else {
      std::copy_n(from, width, to);
    }
  }
}

/// The fast product of a Quant from one that takes rows in blocks as the weight's.
template <class Quant, MultiplyRows kMultiply>
constexpr Product product_of_whole_numbers(std::size_t outputs_at_once = 8) {
  if constexpr (Quant::kFormat.block_size == 256) {
    return {.activations = &kInt8RowsWithResiduals,
            .multiply = multiply_with_residuals<kMultiply>,
            .outputs_at_once = outputs_at_once};
  } else {
    return {.activations = &kInt8Rows<Quant::kFormat.block_size>,
            .multiply = multiply_rows<kMultiply, Quant::kFormat.block_size>,
            .outputs_at_once = outputs_at_once};
  }
}

}  // namespace
}  // namespace reprise::gpu
