// Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1: blocks of 32 with one scale, some with an offset (quant.h). Included by the kernel
// sources, with internal linkage.
//
// Where an element takes four bits, byte j has element j in its low half and element j + 16 in its high one. A fifth
// bit is bit k of a word of 32.

#pragma once

#include "gpu/cpu/quant.h"

namespace reprise::gpu {
namespace {

/// A scale for a whole block of 32.
struct OneGroup {
  static constexpr std::size_t kGroup = 32;
  template <class Block>
  static int group_scale(const Block& /*block*/, std::size_t /*group*/) {
    return 1;
  }
  template <class Block>
  static int group_offset(const Block& /*block*/, std::size_t /*group*/) {
    return 1;
  }
  template <class Block>
  static float scale(const Block& block) {
    return f16_to_f32(block.d);
  }
  template <class Block>
  static float offset(const Block& block) {
    return f16_to_f32(block.m);
  }
};

struct Q8_0 : OneGroup {
  struct Block {
    std::uint16_t d;  // f16
    std::int8_t qs[32];
  };
  static constexpr const WeightFormat& kFormat = kQ8_0Format;
  static constexpr bool kHasOffsets = false;
  static void eight(const Block& block, std::size_t k, std::int8_t* q) { std::memcpy(q, block.qs + k, 8); }
};

/// Four bits and perhaps a fifth, less kZero.
template <int kZero, class Block>
inline void eight_of_32(const Block& block, std::size_t k, std::int8_t* q) {
  std::uint8_t low[8];
  eight_nibbles(block.qs + k % 16, k >= 16, low);
  unsigned fifth = 0;
  if constexpr (requires { block.qh; }) fifth = block.qh[k / 8];
  for (unsigned i = 0; i < 8; ++i) {
    q[i] = static_cast<std::int8_t>(low[i] + static_cast<int>((fifth >> i & 1) << 4) - kZero);
  }
}

struct Q4_0 : OneGroup {
  struct Block {
    std::uint16_t d;
    std::uint8_t qs[16];
  };
  static constexpr const WeightFormat& kFormat = kQ4_0Format;
  static constexpr bool kHasOffsets = false;
  static void eight(const Block& block, std::size_t k, std::int8_t* q) { eight_of_32<8>(block, k, q); }
};

struct Q4_1 : OneGroup {
  struct Block {
    std::uint16_t d;
    std::uint16_t m;  // f16: the offset
    std::uint8_t qs[16];
  };
  static constexpr const WeightFormat& kFormat = kQ4_1Format;
  static constexpr bool kHasOffsets = true;
  static void eight(const Block& block, std::size_t k, std::int8_t* q) { eight_of_32<0>(block, k, q); }
};

struct Q5_0 : OneGroup {
  struct Block {
    std::uint16_t d;
    std::uint8_t qh[4];  // a word: the fifth bits
    std::uint8_t qs[16];
  };
  static constexpr const WeightFormat& kFormat = kQ5_0Format;
  static constexpr bool kHasOffsets = false;
  static void eight(const Block& block, std::size_t k, std::int8_t* q) { eight_of_32<16>(block, k, q); }
};

struct Q5_1 : OneGroup {
  struct Block {
    std::uint16_t d;
    std::uint16_t m;
    std::uint8_t qh[4];
    std::uint8_t qs[16];
  };
  static constexpr const WeightFormat& kFormat = kQ5_1Format;
  static constexpr bool kHasOffsets = true;
  static void eight(const Block& block, std::size_t k, std::int8_t* q) { eight_of_32<0>(block, k, q); }
};

}  // namespace
}  // namespace reprise::gpu
