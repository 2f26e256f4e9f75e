// The quantized formats: integers with scales. GGUF formats have blocks of 32 (Q8_0, Q4_0, Q4_1, Q5_0, Q5_1,
// IQ4_NL, MXFP4) or 256 elements (Q2_K ... Q6_K, IQ4_XS); INT4 is for safetensors files.
//
// A row is a sequence of blocks; the elements of a block are in groups. Element k of a block, in group
// g = k / kGroup, is
//   w = (scale * group_scale(g)) * q + offset * group_offset(g)
// in f32, each operation rounded, where q, group_scale and group_offset are integers. A Quant describes one
// format:
//   Block                       the bytes, as in files
//   kFormat                     its WeightFormat
//   kGroup                      elements per group: 16 or 32; a whole block if there are no group scales
//   kHasOffsets                 false: no offset, no group_offset, and no second term
//   scale(block)                f32
//   offset(block)               f32
//   group_scale(block, g)       from -128 to 127; 1 if the format has none
//   group_offset(block, g)      from 0 to 63; 1 if the format has none
//   eight(block, k, q)          q of elements k ... k + 7 as int8; k a multiple of 8
//
// QuantReader makes a Reader (formats.h) of any Quant; the integer GEMMs (int8_product.h) use the same q and
// scales.

#pragma once

#include <bit>
#include <cstring>

#include "gpu/cpu/lanes.h"
#include "gpu/weights/weight.h"

namespace reprise::gpu {
namespace {

template <class Quant>
inline constexpr bool kIsQuant =
    sizeof(typename Quant::Block) == Quant::kFormat.block_bytes &&
    alignof(typename Quant::Block) == Quant::kFormat.alignment&& Quant::kFormat.block_size % Quant::kGroup ==
        0;

template <class Quant>
struct QuantReader {
  static_assert(kIsQuant<Quant>);
  static constexpr std::size_t kElements = Quant::kFormat.block_size;
  using Row = const typename Quant::Block*;

  static Row row(const WeightView& w, std::size_t n) { return reinterpret_cast<Row>(w.row(n)); }

  static Lanes load(Row row, std::size_t k) {
    const typename Quant::Block& block = row[k / kElements];
    const std::size_t inside = k % kElements;
    const std::size_t group = inside / Quant::kGroup;
    std::int8_t q[8];
    Quant::eight(block, inside, q);
    float whole[8];
    for (int i = 0; i < 8; ++i) whole[i] = static_cast<float>(q[i]);
    const float scale = Quant::scale(block) * static_cast<float>(Quant::group_scale(block, group));
    const Lanes scaled = Lanes::set(scale) * Lanes::load(whole);
    if constexpr (Quant::kHasOffsets) {
      return scaled +
             Lanes::set(Quant::offset(block) * static_cast<float>(Quant::group_offset(block, group)));
    } else {
      return scaled;
    }
  }
};

inline void eight_nibbles(const std::uint8_t* from, bool high, std::uint8_t* to) {
  const int shift = high ? 4 : 0;
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::uint8_t>((from[i] >> shift) & 15);
}

// Blocks of 32 with one scale, some with an offset. Four-bit elements: byte j has element j in its low half
// and element j + 16 in its high half. Fifth bits: bit k of a 32-bit word.

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

/// Extracts elements of four bits, or five if the block has qh, and subtracts kZero.
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

// Blocks of 256 with a scale of 4 to 8 bits per group of 16 or 32, and one f16 that multiplies these scales.

/// Extracts two-bit elements. Each half of 128 elements is 32 bytes; byte l has elements l, l + 32, l + 64
/// and l + 96, from the lowest bits up.
inline void eight_pairs_of_bits(const std::uint8_t (&qs)[64], std::size_t k, std::uint8_t* to) {
  const std::uint8_t* from = qs + k / 128 * 32 + k % 32;
  const auto shift = 2 * (k % 128 / 32);
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::uint8_t>((from[i] >> shift) & 3);
}

struct Q2_K {
  struct Block {
    std::uint8_t scales[16];  // per group: scale in the low half, offset in the high half
    std::uint8_t qs[64];
    std::uint16_t d;     // f16: multiplies the scales
    std::uint16_t dmin;  // f16: multiplies the offsets, which are subtracted
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
    std::uint8_t scales[12];  // sixteen scales of six bits
    std::uint16_t d;
  };
  static constexpr const WeightFormat& kFormat = kQ3_KFormat;
  static constexpr std::size_t kGroup = 16;
  static constexpr bool kHasOffsets = false;
  static float scale(const Block& block) { return f16_to_f32(block.d); }
  /// The low four bits are nibbles of the first eight bytes, the high two are in the last four bytes.
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
    // Per 128 elements 64 bytes: low halves are elements 0 ... 63, high halves 64 ... 127.
    std::uint8_t ql[128];
    std::uint8_t qh[64];  // the upper two bits, in the layout of Q2_K
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

// Four-bit indices into a table of sixteen integers.

/// Values of IQ4_NL and IQ4_XS, denser where weights are frequent.
alignas(16) constexpr std::int8_t kNonLinear4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};
/// The E2M1 floats, doubled.
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
    std::uint8_t qs[16];  // layout of Q4_0
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
  /// Half the scale, because kNumbers is doubled: 2^(e - 128), subnormal for e < 2.
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
    std::uint8_t scales_l[4];  // the lower four bits
    std::uint8_t qs[128];      // 16 bytes per 32 elements, in the layout of Q4_0
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

/// INT4 of AWQ, GPTQ and compressed-tensors: a scale and a zero point per block of 32.
struct Int4 : OneGroup {
  using Block = Int4Block;
  static constexpr const WeightFormat& kFormat = kInt4Format;
  static constexpr bool kHasOffsets = false;
  static float scale(const Block& block) { return block.scale(); }
  static void eight(const Block& block, std::size_t k, std::int8_t* q) {
    const int zero = block.zero();
    for (std::size_t i = 0; i < 8; ++i) {
      const int pair = block.elements[(k + i) / 2];
      q[i] = static_cast<std::int8_t>((i % 2 == 0 ? pair & 15 : pair >> 4) - zero);
    }
  }
};

/// Calls function.operator()<Quant...>() with all GGUF formats, in the order of kWeightFormats.
template <class Function>
constexpr auto with_gguf_quants(Function function) {
  return function.template
  operator()<Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4>();
}

}  // namespace
}  // namespace reprise::gpu
