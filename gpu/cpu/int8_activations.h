// Activations rounded to eight bits, for products of whole numbers (int8_product.h). Included by the kernel sources,
// with internal linkage; the code is portable and gives the same bits everywhere.
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

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "gpu/products.h"

namespace reprise::gpu {
namespace {

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

}  // namespace
}  // namespace reprise::gpu
