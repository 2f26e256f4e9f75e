#pragma once
// How a row of keys or of values, one head's of one token, lies in a page.
//
//   f32, bf16     its elements
//   int8, int4    in blocks of 32 elements: the blocks' scales, bf16 each, then their elements. Of int8 a byte each; of
//                 int4 sixteen bytes a block, whose byte i has element i in its low half and element i + 16 in its high
//                 half, both with 8 added. The last block is filled with zeros
// An element is its number times its block's scale.
//
// A row is rounded by itself alone, and with the same bits everywhere: what is stored depends neither on slices nor on who
// else is computed. A block in which something is not finite becomes NaN as a whole: what is wrong stays visible.
//
// Threading: pure functions.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "gpu/compute.h"

namespace reprise::gpu {

inline constexpr std::size_t kKvBlock = 32;

constexpr std::size_t kv_blocks(std::size_t elements) {
  return (elements + kKvBlock - 1) / kKvBlock;
}

constexpr std::size_t kv_row_bytes(KvType kv, std::size_t elements) {
  switch (kv) {
    case KvType::kF32:
      return elements * sizeof(float);
    case KvType::kBF16:
      return elements * sizeof(std::uint16_t);
    case KvType::kInt8:
      return kv_blocks(elements) * (sizeof(std::uint16_t) + kKvBlock);
    case KvType::kInt4:
      return kv_blocks(elements) * (sizeof(std::uint16_t) + kKvBlock / 2);
  }
  return 0;
}

/// row[elements] -> to, of a type that is_quantised().
void store_quantised_row(KvType kv, const float* row, std::size_t elements, std::byte* to);

/// What store_quantised_row() left of it.
void load_quantised_row(KvType kv, const std::byte* from, std::size_t elements, float* row);

}  // namespace reprise::gpu
