// Dequantizes int8 and int4 KV rows (gpu/state/kv_rows.h) to f32 in loops that compilers vectorize, one
// multiplication per element, so bitwise identical on every instruction set. Internal linkage: each kernel
// source compiles them for its own instruction set.

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "gpu/state/kv_rows.h"

namespace reprise::gpu {
namespace {

inline float widened_scale(std::uint16_t scale) {
  return std::bit_cast<float>(std::uint32_t{scale} << 16);
}

/// Calls widen(bytes, scale, to) for each block of a row. A partial last block is widened into a temporary.
template <std::size_t kBytes, class Widen>
inline void widen_blocks(const std::byte* from, std::size_t elements, float* to, Widen widen) {
  const std::size_t blocks = kv_blocks(elements);
  const std::byte* numbers = from + blocks * sizeof(std::uint16_t);
  for (std::size_t b = 0; b < blocks; ++b) {
    std::uint16_t bits;
    std::memcpy(&bits, from + b * sizeof(bits), sizeof(bits));
    const std::size_t count = elements - b * kKvBlock;
    if (count >= kKvBlock) {
      widen(numbers + b * kBytes, widened_scale(bits), to + b * kKvBlock);
      continue;
    }
    float whole[kKvBlock];
    widen(numbers + b * kBytes, widened_scale(bits), whole);
    std::copy_n(whole, count, to + b * kKvBlock);
  }
}

inline void widen_row8(const std::byte* from, std::size_t elements, float* to) {
  widen_blocks<kKvBlock>(from, elements, to, [](const std::byte* bytes, float scale, float* block) {
    for (std::size_t i = 0; i < kKvBlock; ++i) {
      block[i] = static_cast<float>(static_cast<std::int8_t>(bytes[i])) * scale;
    }
  });
}

inline void widen_row4(const std::byte* from, std::size_t elements, float* to) {
  widen_blocks<kKvBlock / 2>(from, elements, to, [](const std::byte* bytes, float scale, float* block) {
    for (std::size_t i = 0; i < kKvBlock / 2; ++i) {
      const int both = static_cast<std::uint8_t>(bytes[i]);
      block[i] = static_cast<float>((both & 15) - 8) * scale;
      block[i + kKvBlock / 2] = static_cast<float>((both >> 4) - 8) * scale;
    }
  });
}

}  // namespace
}  // namespace reprise::gpu
