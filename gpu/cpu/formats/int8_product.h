// The fast GEMM of quantized formats: exact integer arithmetic inside a block, one float expression per
// block. This file has the definition, the layout of activations, and the portable version; all versions for
// instruction sets are bitwise identical to it.
//
// y[m, n] is a sum over blocks in ascending order, starting at zero. A block (quants.h) of the weight and the
// same elements of x, rounded to int8 with one scale (Int8Rows), give
//   I = sum_g group_scale(g) * sum_{k in g} w.q[k] * x.q[k]          int32
//   S = sum_g group_offset(g) * sum_{k in g} x.q[k]                  int32; if the format has offsets
//   t = w.scale * float(I);  t = fma(w.offset, float(S), t);         float() rounds to nearest even
//   y = fma(x.scale, t, y)
// I and S are exact, so the order of their additions is free, and so is the path of the weight's integers to
// the multiplier. Nothing depends on m, on ranges, or on the path chosen for some m. (The sign and payload of
// a NaN are unspecified.) A row of x for which int8 is too coarse is multiplied as two rows
// (RowsWithResiduals).
//
// |I| stays below 2^31 for any bytes of a file. The maxima are
//   Q8_0   32 * 128 * 127              < 2^19       Q2_K   256 *   3 * 127 * 15     < 2^21
//   Q4_*   32 *  15 * 127              < 2^16       Q3_K   256 *   4 * 127 * 32     < 2^22
//   Q5_*   32 *  31 * 127              < 2^17       Q4_K   256 *  15 * 127 * 63     < 2^25
//   IQ4_NL 32 * 127 * 127              < 2^19       Q5_K   256 *  31 * 127 * 63     < 2^26
//   MXFP4  32 *  12 * 127              < 2^16       Q6_K   256 *  32 * 127 * 128    < 2^27
//   |S|   256 * 127 * 63               < 2^21       IQ4_XS 256 * 127 * 127 * 32     < 2^27
// and no partial sum is larger. (Unsigned weights, q + 128 of Q8_0 or q + 32 of Q6_K, fit as well: 256 * 63 *
// 127 * 128 < 2^28. The sum of two products of int8 does not fit int16.)

#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gpu/cpu/formats/quants.h"
#include "gpu/kernels.h"
#include "gpu/weights/products.h"
#include "gpu/weights/weight.h"

namespace reprise::gpu {
namespace {

// Activations quantized to int8, by portable code that is bitwise identical everywhere.
//
// A row is quantized in blocks, each by its own largest magnitude alone:
//   scale = largest / 127,  q = x * (127 / largest) rounded to nearest even, from -127 to 127
// A block with largest < 2^-100 is all zeros. A block with a NaN or an infinity gets scale NaN and zeros, so
// that every output of the row is NaN.
//
// A prepared row of Int8Rows<kBlock> is the concatenation of these, padded to 64 bytes:
//   int8  q[columns]
//   f32   scales[columns / kBlock]
//   int16 sums[columns / kSumOf]     of q, for weights with offsets and instructions with unsigned weights
// columns is a multiple of kBlock.

/// Prepared rows, which need not be contiguous: callers select rows and residuals.
using RowList = const std::byte* const*;

/// kBlock: 32 or 256, the block size of the weight's format.
template <std::size_t kBlock>
struct Int8Rows {
  static constexpr std::size_t kSumOf = kBlock == 32 ? 32 : 16;

  RowList rows;
  std::size_t columns;

  static constexpr std::size_t stride_of(std::size_t columns) {
    return (columns + columns / kBlock * sizeof(float) + columns / kSumOf * sizeof(std::int16_t) + 63) / 64 *
           64;
  }

  Int8Rows(RowList some, std::size_t row_columns) : rows(some), columns(row_columns) {}

  const std::int8_t* q(std::size_t row) const { return reinterpret_cast<const std::int8_t*>(rows[row]); }
  const float* scales(std::size_t row) const { return reinterpret_cast<const float*>(rows[row] + columns); }
  const std::int16_t* sums(std::size_t row) const {
    return reinterpret_cast<const std::int16_t*>(scales(row) + columns / kBlock);
  }
  Int8Rows from(std::size_t row) const { return {rows + row, columns}; }
};

/// Quantizes a block into q[kBlock]; returns its scale.
template <std::size_t kBlock>
inline float round_to_int8(const float* x, std::int8_t* q) {
  std::uint32_t largest_bits = 0;  // magnitudes compare as their bits; infinity and NaN are largest
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffU;
    largest_bits = largest_bits > magnitude ? largest_bits : magnitude;
  }
  const auto largest = std::bit_cast<float>(largest_bits);
  const bool is_finite = largest_bits < 0x7f800000U;
  if (!is_finite || largest < 0x1p-100F) {
    for (std::size_t i = 0; i < kBlock; ++i) q[i] = 0;
    return is_finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = 127.0F / largest;
  for (std::size_t i = 0; i < kBlock; ++i) {
    // After adding 1.5 * 2^23, the low bits of the float are the rounded integer.
    const float shifted = x[i] * inverse + 0x1.8p23F;
    q[i] = static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(shifted) & 0xffU);
  }
  return largest / 127.0F;
}

/// Returns the sum of kCount (16 or 32) integers; adds eight at a time in a word, each biased by 128 to be
/// unsigned.
template <std::size_t kCount>
inline std::int16_t sum_of(const std::int8_t* q) {
  constexpr std::uint64_t kOnes = 0x0101010101010101ULL;
  constexpr std::uint64_t kEven = 0x00ff00ff00ff00ffULL;
  std::uint64_t sums = 0;  // four partial sums of 16 bits, each at most 32 / 4 * 255
  for (std::size_t i = 0; i < kCount; i += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, q + i, sizeof(eight));
    eight ^= 128 * kOnes;
    sums += (eight & kEven) + (eight >> 8 & kEven);
  }
  sums += sums >> 32;
  sums += sums >> 16;
  return static_cast<std::int16_t>(static_cast<std::int32_t>(sums & 0xffffU) -
                                   128 * static_cast<int>(kCount));
}

template <std::size_t kBlock>
void rows_to_int8(const float* x, std::size_t rows, std::size_t columns, std::byte* to) {
  constexpr std::size_t kSumOf = Int8Rows<kBlock>::kSumOf;
  const std::size_t stride = Int8Rows<kBlock>::stride_of(columns);
  for (std::size_t row = 0; row < rows; ++row, x += columns, to += stride) {
    auto* q = reinterpret_cast<std::int8_t*>(to);
    auto* scales = reinterpret_cast<float*>(to + columns);
    auto* sums = reinterpret_cast<std::int16_t*>(scales + columns / kBlock);
    for (std::size_t k = 0; k < columns; k += kBlock) {
      scales[k / kBlock] = round_to_int8<kBlock>(x + k, q + k);
    }
    // In a loop of its own, because loads of just-written bytes stall.
    for (std::size_t k = 0; k < columns; k += kSumOf) sums[k / kSumOf] = sum_of<kSumOf>(q + k);
  }
}

template <std::size_t kBlock>
constexpr ActivationForm kInt8Rows{
    .row_bytes = Int8Rows<kBlock>::stride_of, .prepare = rows_to_int8<kBlock>, .int8_block = kBlock};

// Activations for blocks of 256, where a row that int8 represents badly is multiplied twice: as quantized,
// and its quantization error (residual).
//
// One scale for 256 elements is coarse if a few of them are much larger than the rest, as after the gated
// norm of linear attention. A row counts as coarse if its mean of q^2, with each block weighted by its
// squared scale, is below 400: its largest element is then more than six times the root mean square, and
// rounding costs more than 1.4 % of that. A coarse row is two rows of the GEMM,
//   x = q * scale + r,   r quantized as x was
// whose outputs are added. The decision depends on the row alone.
//
// A prepared row is Int8Rows<256> of x, Int8Rows<256> of r, a uint32 that is 1 if r is present, and 60 bytes
// of padding.

struct RowsWithResiduals {
  using Row = Int8Rows<256>;
  static constexpr double kMeanSquare = 400;

  static constexpr std::size_t stride_of(std::size_t columns) { return 2 * Row::stride_of(columns) + 64; }

  /// True if the quantized row is coarse; false for a non-finite row.
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

/// As Product::multiply, with x as a list of prepared rows.
using MultiplyRows = void (*)(RowList x, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                              std::size_t n_begin, std::size_t n_end);

/// Product::multiply of contiguous rows by kMultiply.
template <MultiplyRows kMultiply, std::size_t kBlock>
void multiply_rows(const void* activations, std::size_t m, const WeightView& w, float* y,
                   std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  thread_local std::vector<const std::byte*> rows;
  rows.resize(m);
  const std::size_t stride = Int8Rows<kBlock>::stride_of(w.columns);
  for (std::size_t i = 0; i < m; ++i) rows[i] = static_cast<const std::byte*>(activations) + i * stride;
  kMultiply(rows.data(), m, w, y, y_stride, n_begin, n_end);
}

/// Product::multiply of RowsWithResiduals by kMultiply, which takes Int8Rows<256>.
template <MultiplyRows kMultiply>
void multiply_with_residuals(const void* activations, std::size_t m, const WeightView& w, float* y,
                             std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  thread_local std::vector<const std::byte*> rows;  // all rows, then the residuals
  thread_local std::vector<float> outputs;
  thread_local std::vector<std::size_t> coarse;  // indices of rows with residuals
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

/// Makes the fast Product of a Quant from a MultiplyRows that takes ActivationsOf<Quant>.
template <class Quant, MultiplyRows kMultiply>
constexpr Product product_of_integers(std::size_t outputs_at_once = 8) {
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

template <class Quant>
struct UnpackedBlock {
  static constexpr std::size_t kElements = Quant::kFormat.block_size;
  static constexpr std::size_t kGroups = kElements / Quant::kGroup;

  std::int8_t q[kElements];
  std::int16_t group_scales[kGroups];
  std::int16_t group_offsets[kGroups];  // zeros if the format has no offsets
  float scale;
  float offset;  // 0 if the format has no offsets
};

template <class Quant>
inline void unpack(const typename Quant::Block& from, UnpackedBlock<Quant>& to) {
  using Unpacked = UnpackedBlock<Quant>;
  for (std::size_t k = 0; k < Unpacked::kElements; k += 8) Quant::eight(from, k, to.q + k);
  to.scale = Quant::scale(from);
  to.offset = 0;
  if constexpr (Quant::kHasOffsets) to.offset = Quant::offset(from);
  for (std::size_t g = 0; g < Unpacked::kGroups; ++g) {
    to.group_scales[g] = static_cast<std::int16_t>(Quant::group_scale(from, g));
    to.group_offsets[g] = 0;
    if constexpr (Quant::kHasOffsets)
      to.group_offsets[g] = static_cast<std::int16_t>(Quant::group_offset(from, g));
  }
}

/// The activations of a Quant's GEMM: int8 in blocks of the weight's size.
template <class Quant>
using ActivationsOf = Int8Rows<Quant::kFormat.block_size>;

/// Adds a block to an output: the float part of the definition, from I and S.
template <class Quant>
inline float add_block(float sum, float x_scale, float scale, float offset, std::int32_t products,
                       std::int32_t offsets) {
  float t = scale * static_cast<float>(products);
  if constexpr (Quant::kHasOffsets) t = std::fma(offset, static_cast<float>(offsets), t);
  return std::fma(x_scale, t, sum);
}

template <class Quant>
void int8_multiply(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                   std::size_t n_begin, std::size_t n_end) {
  using Unpacked = UnpackedBlock<Quant>;
  using X = ActivationsOf<Quant>;
  constexpr std::size_t kRowsAtOnce = 64;  // rows whose accumulators are on the stack
  const std::size_t blocks = w.columns / Unpacked::kElements;
  const X all(listed, w.columns);
  for (std::size_t n = n_begin; n < n_end; ++n) {
    const auto* row = reinterpret_cast<const typename Quant::Block*>(w.row(n));
    for (std::size_t first = 0; first < m; first += kRowsAtOnce) {
      const std::size_t rows = m - first < kRowsAtOnce ? m - first : kRowsAtOnce;
      const X x = all.from(first);
      float sums[kRowsAtOnce] = {};
      for (std::size_t b = 0; b < blocks; ++b) {
        Unpacked block;
        unpack<Quant>(row[b], block);
        for (std::size_t i = 0; i < rows; ++i) {
          const std::int8_t* q = x.q(i) + b * Unpacked::kElements;
          const std::int16_t* q_sums = x.sums(i) + b * Unpacked::kElements / X::kSumOf;
          std::int32_t products = 0;
          std::int32_t offsets = 0;
          for (std::size_t g = 0; g < Unpacked::kGroups; ++g) {
            std::int32_t dot = 0;
            for (std::size_t k = g * Quant::kGroup; k < (g + 1) * Quant::kGroup; ++k)
              dot += block.q[k] * q[k];
            products += block.group_scales[g] * dot;
            for (std::size_t s = 0; Quant::kHasOffsets && s < Quant::kGroup / X::kSumOf; ++s) {
              offsets += block.group_offsets[g] * q_sums[g * (Quant::kGroup / X::kSumOf) + s];
            }
          }
          sums[i] = add_block<Quant>(sums[i], x.scales(i)[b], block.scale, block.offset, products, offsets);
        }
      }
      for (std::size_t i = 0; i < rows; ++i) y[(first + i) * y_stride + n] = sums[i];
    }
  }
}

template <class Quant>
constexpr Product int8_product() {
  return product_of_integers<Quant, int8_multiply<Quant>>();
}

}  // namespace
}  // namespace reprise::gpu
