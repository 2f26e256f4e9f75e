// The fast product of quantized formats: integers inside a block, one float expression for each block. This is its
// definition, the form that it wants of activations, and the portable version; every instruction set's own has the same
// bits.
//
// y[m, n] is a sum over blocks in ascending order, begun at zero. A block (quants.h) of the weight and the same
// elements of x, rounded to int8 with one scale (Int8Rows), give
//   I = sum_g group_scale(g) * sum_{k in g} w.q[k] * x.q[k]          whole numbers, int32
//   S = sum_g group_offset(g) * sum_{k in g} x.q[k]                  whole numbers, int32; where there are offsets
//   t = w.scale * float(I);  t = fma(w.offset, float(S), t);         float() rounds to nearest even
//   y = fma(x.scale, t, y)
// I and S are exact, so the order of their additions is free, and so is how the weight's numbers come to the
// multiplier: from the file's blocks, or unpacked. Nothing of this depends on m, on ranges, or on the path that a
// product takes for some m. (Where a result is NaN, its sign and payload are open.) A row of x that is rounded too
// coarsely by this is two rows (RowsWithResiduals).
//
// |I| stays below 2^31, whatever the bytes of a file are: the largest is
//   Q8_0   32 * 128 * 127              < 2^19       Q2_K   256 *   3 * 127 * 15     < 2^21
//   Q4_*   32 *  15 * 127              < 2^16       Q3_K   256 *   4 * 127 * 32     < 2^22
//   Q5_*   32 *  31 * 127              < 2^17       Q4_K   256 *  15 * 127 * 63     < 2^25
//   IQ4_NL 32 * 127 * 127              < 2^19       Q5_K   256 *  31 * 127 * 63     < 2^26
//   MXFP4  32 *  12 * 127              < 2^16       Q6_K   256 *  32 * 127 * 128    < 2^27
//   |S|   256 * 127 * 63               < 2^21       IQ4_XS 256 * 127 * 127 * 32     < 2^27
// and a sum of any part of the products is not larger. (An unsigned weight, q + 128 of Q8_0 or q + 32 of Q6_K, times
// int8 fits as well: 256 * 63 * 127 * 128 < 2^28. Pairs of products of two int8 do not fit int16.)

#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gpu/cpu/quants.h"
#include "gpu/kernels.h"
#include "gpu/products.h"
#include "gpu/weight.h"

namespace reprise::gpu {
namespace {

// Activations rounded to eight bits: the code is portable and gives the same bits everywhere.
//
// A row is rounded in blocks, each by its own largest magnitude and by nothing else:
//   scale = largest / 127,  q = x * (127 / largest) rounded to nearest even, from -127 to 127
// A block whose largest is below 2^-100 is zeros. A block with a NaN or an infinity has scale NaN and zeros, which
// makes every output of the row NaN: what is broken stays visible.
//
// A prepared row of Int8Rows<kBlock> is, one after another, filled up to 64 bytes, a line of the cache:
//   int8  q[columns]
//   f32   scales[columns / kBlock]
//   int16 sums[columns / kSumOf]     of q, for offsets of weights, and for instructions that want unsigned weights
// columns is a multiple of kBlock.

/// Prepared rows, each wherever it lies: a product may be asked for some of them, or for what a row is made of.
using RowList = const std::byte* const*;

/// kBlock: 32 for weights in blocks of 32, 256 for those of 256.
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

/// q[kBlock]; returns the scale.
template <std::size_t kBlock>
inline float round_to_int8(const float* x, std::int8_t* q) {
  std::uint32_t largest_bits = 0;  // magnitudes are ordered as their bits are, infinity and NaN above all
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
    // Beside 1.5 * 2^23 the last bits of a float are whole numbers.
    const float shifted = x[i] * inverse + 0x1.8p23F;
    q[i] = static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(shifted) & 0xffU);
  }
  return largest / 127.0F;
}

/// The sum of 16 or 32 numbers, eight of them in a word at a time, 128 more than each is so that none is negative.
template <std::size_t kCount>
inline std::int16_t sum_of(const std::int8_t* q) {
  constexpr std::uint64_t kOnes = 0x0101010101010101ULL;
  constexpr std::uint64_t kEven = 0x00ff00ff00ff00ffULL;
  std::uint64_t sums = 0;  // four, at most 32 / 4 * 255
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
    // Afterwards: what was just written is slow to read.
    for (std::size_t k = 0; k < columns; k += kSumOf) sums[k / kSumOf] = sum_of<kSumOf>(q + k);
  }
}

template <std::size_t kBlock>
constexpr ActivationForm kInt8Rows{
    .row_bytes = Int8Rows<kBlock>::stride_of, .prepare = rows_to_int8<kBlock>, .int8_block = kBlock};

// Rows of x that eight bits hold badly, multiplied twice: as they were rounded, and what the rounding left. For every
// product of integers with blocks of 256.
//
// One scale for 256 elements is coarse where a few of them are much larger than the others, as behind the gated norm of
// a linear attention. Whether a row is such a one is decided by that row alone, from its numbers: by the mean of q^2,
// each block weighted with the square of its scale, being under 400 (the largest element is then more than six times
// the root mean square, and rounding costs more than 1.4 % of it). Such a row is two rows to the product below,
//   x = q * scale + r,   r rounded as x was
// and its outputs are the sums of theirs. So the bits are a row's own, and the same on every table, as before.
//
// A prepared row is Int8Rows<256>'s, then that of r, then a word that says whether r is there, and 60 bytes of nothing.

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

/// A block of a weight as whole numbers.
template <class Quant>
struct UnpackedBlock {
  static constexpr std::size_t kElements = Quant::kFormat.block_size;
  static constexpr std::size_t kGroups = kElements / Quant::kGroup;

  std::int8_t q[kElements];
  std::int16_t group_scales[kGroups];
  std::int16_t group_offsets[kGroups];  // zeros where there are none
  float scale;
  float offset;  // 0 where there are none
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

/// The form that a Quant's product wants x in: blocks as the weight's.
template <class Quant>
using ActivationsOf = Int8Rows<Quant::kFormat.block_size>;

/// What a block adds, from its whole numbers: the float part of the definition.
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
  constexpr std::size_t kRowsAtOnce = 64;  // whose sums stand on the stack
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

/// The portable fast product.
template <class Quant>
constexpr Product int8_product() {
  return product_of_whole_numbers<Quant, int8_multiply<Quant>>();
}

}  // namespace
}  // namespace reprise::gpu
