// Q2_K, Q3_K, Q4_K, Q5_K and Q6_K: blocks of 256 with scales of 4 to 8 bits for groups of 16 or 32, and one f16 for
// all of those (quant.h). Included by the kernel sources, with internal linkage.

#pragma once

#include "gpu/cpu/quant.h"

namespace reprise::gpu {
namespace {

/// Elements lie in two halves of 128. In each, 32 bytes have two bits of four elements: byte l those of l, l + 32,
/// l + 64 and l + 96, from the lowest up.
inline void eight_pairs_of_bits(const std::uint8_t (&qs)[64], std::size_t k, std::uint8_t* to) {
  const std::uint8_t* from = qs + k / 128 * 32 + k % 32;
  const auto shift = 2 * (k % 128 / 32);
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::uint8_t>((from[i] >> shift) & 3);
}

struct Q2_K {
  struct Block {
    std::uint8_t scales[16];  // of a group: its scale in the low half, its offset in the high one
    std::uint8_t qs[64];
    std::uint16_t d;     // f16: of the scales
    std::uint16_t dmin;  // f16: of the offsets, which are subtracted
  };
  static constexpr const WeightFormat& kFormat = kQ2_KFormat;
  static constexpr std::size_t kGroup = 16;
  static constexpr bool kHasOffsets = true;
  static float scale(const Block& block) { return f16_to_f32(block.d); }
  static float offset(const Block& block) { return -f16_to_f32(block.dmin); }
  static int group_scale(const Block& block, std::size_t group) { return block.scales[group] & 15; }
  static int group_offset(const Block& block, std::size_t group) { return block.scales[group] >> 4; }
  static void eight(const Block& block, std::size_t k, std::int8_t* q) {
    std::uint8_t low[8];
    eight_pairs_of_bits(block.qs, k, low);
    std::memcpy(q, low, 8);
  }
};

struct Q3_K {
  struct Block {
    std::uint8_t hmask[32];  // byte l, bit b: the third bit of element 32 b + l
    std::uint8_t qs[64];
    std::uint8_t scales[12];  // of six bits
    std::uint16_t d;
  };
  static constexpr const WeightFormat& kFormat = kQ3_KFormat;
  static constexpr std::size_t kGroup = 16;
  static constexpr bool kHasOffsets = false;
  static float scale(const Block& block) { return f16_to_f32(block.d); }
  /// Four bits in the halves of the first eight bytes, two in the last four.
  static int group_scale(const Block& block, std::size_t group) {
    const int low = (block.scales[group % 8] >> (group >= 8 ? 4 : 0)) & 15;
    const int high = (block.scales[8 + group % 4] >> (2 * (group / 4))) & 3;
    return (low | high << 4) - 32;
  }
  static void eight(const Block& block, std::size_t k, std::int8_t* q) {
    std::uint8_t low[8];
    eight_pairs_of_bits(block.qs, k, low);
    const std::uint8_t* high = block.hmask + k % 32;
    const auto bit = k / 32;
    for (int i = 0; i < 8; ++i) q[i] = static_cast<std::int8_t>(low[i] + 4 * (high[i] >> bit & 1) - 4);
  }
};

/// Eight scales and eight offsets of six bits in twelve bytes.
struct SixBitScales {
  static int scale(const std::uint8_t (&s)[12], std::size_t group) {
    if (group < 4) return s[group] & 63;
    return (s[group + 4] & 15) | s[group - 4] >> 6 << 4;
  }
  static int offset(const std::uint8_t (&s)[12], std::size_t group) {
    if (group < 4) return s[group + 4] & 63;
    return s[group + 4] >> 4 | s[group] >> 6 << 4;
  }
};

/// Elements 64 p ... 64 p + 31 are the low halves of 32 bytes, the next 32 the high ones.
inline void eight_of_64(const std::uint8_t (&qs)[128], std::size_t k, std::uint8_t* to) {
  eight_nibbles(qs + k / 64 * 32 + k % 32, k % 64 >= 32, to);
}

struct Q4_K {
  struct Block {
    std::uint16_t d;
    std::uint16_t dmin;
    std::uint8_t scales[12];
    std::uint8_t qs[128];
  };
  static constexpr const WeightFormat& kFormat = kQ4_KFormat;
  static constexpr std::size_t kGroup = 32;
  static constexpr bool kHasOffsets = true;
  static float scale(const Block& block) { return f16_to_f32(block.d); }
  static float offset(const Block& block) { return -f16_to_f32(block.dmin); }
  static int group_scale(const Block& block, std::size_t group) {
    return SixBitScales::scale(block.scales, group);
  }
  static int group_offset(const Block& block, std::size_t group) {
    return SixBitScales::offset(block.scales, group);
  }
  static void eight(const Block& block, std::size_t k, std::int8_t* q) {
    std::uint8_t low[8];
    eight_of_64(block.qs, k, low);
    std::memcpy(q, low, 8);
  }
};

struct Q5_K {
  struct Block {
    std::uint16_t d;
    std::uint16_t dmin;
    std::uint8_t scales[12];
    std::uint8_t qh[32];  // byte l, bit b: the fifth bit of element 32 b + l
    std::uint8_t qs[128];
  };
  static constexpr const WeightFormat& kFormat = kQ5_KFormat;
  static constexpr std::size_t kGroup = 32;
  static constexpr bool kHasOffsets = true;
  static float scale(const Block& block) { return f16_to_f32(block.d); }
  static float offset(const Block& block) { return -f16_to_f32(block.dmin); }
  static int group_scale(const Block& block, std::size_t group) {
    return SixBitScales::scale(block.scales, group);
  }
  static int group_offset(const Block& block, std::size_t group) {
    return SixBitScales::offset(block.scales, group);
  }
  static void eight(const Block& block, std::size_t k, std::int8_t* q) {
    std::uint8_t low[8];
    eight_of_64(block.qs, k, low);
    const std::uint8_t* high = block.qh + k % 32;
    const auto bit = k / 32;
    for (int i = 0; i < 8; ++i) q[i] = static_cast<std::int8_t>(low[i] | (high[i] >> bit & 1) << 4);
  }
};

struct Q6_K {
  struct Block {
    std::uint8_t
        ql[128];  // for a half of 128: 64 bytes, the low halves elements 0 ... 63, the high ones 64 ... 127
    std::uint8_t qh[64];  // the upper two bits, as Q2_K's
    std::int8_t scales[16];
    std::uint16_t d;
  };
  static constexpr const WeightFormat& kFormat = kQ6_KFormat;
  static constexpr std::size_t kGroup = 16;
  static constexpr bool kHasOffsets = false;
  static float scale(const Block& block) { return f16_to_f32(block.d); }
  static int group_scale(const Block& block, std::size_t group) { return block.scales[group]; }
  static void eight(const Block& block, std::size_t k, std::int8_t* q) {
    std::uint8_t low[8];
    std::uint8_t high[8];
    eight_nibbles(block.ql + k / 128 * 64 + k % 64, k % 128 >= 64, low);
    eight_pairs_of_bits(block.qh, k, high);
    for (int i = 0; i < 8; ++i) q[i] = static_cast<std::int8_t>((low[i] | high[i] << 4) - 32);
  }
};

}  // namespace
}  // namespace reprise::gpu
