// IQ4_NL, IQ4_XS and MXFP4: four bits that choose one of sixteen whole numbers (quant.h). Included by the kernel
// sources, with internal linkage.

#pragma once

#include <bit>

#include "gpu/cpu/block32_quants.h"
#include "gpu/cpu/quant.h"

namespace reprise::gpu {
namespace {

/// IQ4_NL's and IQ4_XS's numbers, which lie closer where weights are frequent.
alignas(16) constexpr std::int8_t kNonLinear4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};
/// The floats of four bits (E2M1), doubled.
alignas(16) constexpr std::int8_t kFloat4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline void look_up_eight(const std::int8_t (&table)[16], const std::uint8_t* from, bool high,
                          std::int8_t* to) {
  std::uint8_t index[8];
  eight_nibbles(from, high, index);
  for (int i = 0; i < 8; ++i) to[i] = table[index[i]];
}

struct IQ4_NL : OneGroup {
  struct Block {
    std::uint16_t d;
    std::uint8_t qs[16];  // as Q4_0's
  };
  static constexpr const WeightFormat& kFormat = kIQ4_NLFormat;
  static constexpr bool kHasOffsets = false;
  static constexpr const std::int8_t (&kNumbers)[16] = kNonLinear4;
  static void eight(const Block& block, std::size_t k, std::int8_t* q) {
    look_up_eight(kNumbers, block.qs + k % 16, k >= 16, q);
  }
};

struct MXFP4 : OneGroup {
  struct Block {
    std::uint8_t e;  // the scale 2^(e - 127)
    std::uint8_t qs[16];
  };
  static constexpr const WeightFormat& kFormat = kMXFP4Format;
  static constexpr bool kHasOffsets = false;
  static constexpr const std::int8_t (&kNumbers)[16] = kFloat4;
  /// Half of it, for the numbers are doubled: 2^(e - 128), which is subnormal for e < 2.
  static float scale(const Block& block) {
    const std::uint32_t bits =
        block.e < 2 ? 0x00200000U << block.e : static_cast<std::uint32_t>(block.e - 1) << 23;
    return std::bit_cast<float>(bits);
  }
  static void eight(const Block& block, std::size_t k, std::int8_t* q) {
    look_up_eight(kNumbers, block.qs + k % 16, k >= 16, q);
  }
};

struct IQ4_XS {
  struct Block {
    std::uint16_t d;
    std::uint16_t scales_h;    // the upper two bits of eight scales
    std::uint8_t scales_l[4];  // the lower four
    std::uint8_t qs[128];      // of each 32 elements 16 bytes, as Q4_0's
  };
  static constexpr const WeightFormat& kFormat = kIQ4_XSFormat;
  static constexpr std::size_t kGroup = 32;
  static constexpr bool kHasOffsets = false;
  static constexpr const std::int8_t (&kNumbers)[16] = kNonLinear4;
  static float scale(const Block& block) { return f16_to_f32(block.d); }
  static int group_scale(const Block& block, std::size_t group) {
    const int low = (block.scales_l[group / 2] >> (4 * (group % 2))) & 15;
    const int high = (block.scales_h >> (2 * group)) & 3;
    return (low | high << 4) - 32;
  }
  static void eight(const Block& block, std::size_t k, std::int8_t* q) {
    look_up_eight(kNumbers, block.qs + k / 32 * 16 + k % 16, k % 32 >= 16, q);
  }
};

}  // namespace
}  // namespace reprise::gpu
