#pragma once
// The layout of a KV row (K or V of one head and one token) in a page.
//
//   f32, bf16     the elements
//   int8, int4    blocks of 32 elements: first the scales of all blocks (bf16), then the integers. int8: one
//                 byte per element. int4: 16 bytes per block; byte i has element i in its low half and
//                 element i + 16 in its high half, both plus 8. The last block is padded with zeros.
// An element's value is its integer times its block's scale.
//
// Each row is quantized by itself, bitwise identically on all devices. A block with a non-finite element
// becomes NaN as a whole, so that the fault stays visible.

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

/// Quantizes row[elements] into kv_row_bytes() bytes at `to`. Requires: is_quantized(kv).
void store_quantized_row(KvType kv, const float* row, std::size_t elements, std::byte* to);

/// Dequantizes a row that store_quantized_row() wrote into row[elements].
void load_quantized_row(KvType kv, const std::byte* from, std::size_t elements, float* row);

}  // namespace reprise::gpu
