// Unpacks quantized formats (quants.h) into NEON registers.
//
// NeonQuant<Quant> has
//   sixteen<kIndex>(block)   q + kZero of elements 16 kIndex ... 16 kIndex + 15, as int8
//   kZero                    bias of sixteen(); absent: 0. Int8Rows has the sums of x, so it is cheaper to
//                            subtract kZero * sum from the dot products
//   scales(block)            the group scales, int16; the second vector is zero for eight groups
//   offsets(block)           the group offsets, int16. Both are absent for formats without them
// If a caller unpacks all of a block, the compiler shares loads and masks.

#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <type_traits>

#include "gpu/cpu/formats/quants.h"
#include "gpu/cpu/lanes.h"

namespace reprise::gpu {
namespace {

template <bool kHigh>
[[gnu::always_inline]] inline uint8x16_t nibbles(const std::uint8_t* from) {
  const uint8x16_t bytes = vld1q_u8(from);
  if constexpr (kHigh) {
    return vshrq_n_u8(bytes, 4);
  } else {
    return vandq_u8(bytes, vdupq_n_u8(15));
  }
}

/// Returns (bytes >> kShift) & mask; kShift may be 0, which the intrinsic does not allow.
template <int kShift>
[[gnu::always_inline]] inline uint8x16_t shifted(uint8x16_t bytes, std::uint8_t mask) {
  if constexpr (kShift == 0) {
    return vandq_u8(bytes, vdupq_n_u8(mask));
  } else {
    return vandq_u8(vshrq_n_u8(bytes, kShift), vdupq_n_u8(mask));
  }
}

template <int kBit, int kTo>
[[gnu::always_inline]] inline uint8x16_t moved(uint8x16_t bytes) {
  if constexpr (kBit < kTo) {
    return vshlq_n_u8(bytes, kTo - kBit);
  } else if constexpr (kBit > kTo) {
    return vshrq_n_u8(bytes, kBit - kTo);
  } else {
    return bytes;
  }
}

/// Returns bit kBit of each byte at bit kTo, and zeros elsewhere.
template <int kBit, int kTo>
[[gnu::always_inline]] inline uint8x16_t bit_moved(uint8x16_t bytes) {
  return moved<kBit, kTo>(vandq_u8(bytes, vdupq_n_u8(1U << kBit)));
}

/// Extracts two-bit elements in the layout of Q2_K (quants.h).
template <std::size_t kIndex>
[[gnu::always_inline]] inline uint8x16_t pairs_of_bits(const std::uint8_t (&qs)[64]) {
  constexpr std::size_t kAt = kIndex / 8 * 32 + kIndex % 2 * 16;
  return shifted<static_cast<int>(2 * (kIndex % 8 / 2))>(vld1q_u8(qs + kAt), 3);
}

inline std::uint32_t word_at(const std::uint8_t* from) {
  std::uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

inline uint8x8_t two_words(std::uint32_t low, std::uint32_t high) {
  return vcreate_u8(low | static_cast<std::uint64_t>(high) << 32);
}

template <class Quant>
struct NeonQuant;

template <>
struct NeonQuant<Q8_0> {
  template <std::size_t kIndex>
  static int8x16_t sixteen(const Q8_0::Block& block) {
    return vld1q_s8(block.qs + 16 * kIndex);
  }
};

template <>
struct NeonQuant<Q4_0> {
  static constexpr int kZero = 8;
  template <std::size_t kIndex>
  static int8x16_t sixteen(const Q4_0::Block& block) {
    return vreinterpretq_s8_u8(nibbles<kIndex == 1>(block.qs));
  }
};

template <>
struct NeonQuant<Int4> {
  template <std::size_t kIndex>
  static int8x16_t sixteen(const Int4::Block& block) {
    const uint8x8_t pairs = vld1_u8(block.elements + 8 * kIndex);
    const uint8x8_t even = vand_u8(pairs, vdup_n_u8(15));
    const uint8x8_t odd = vshr_n_u8(pairs, 4);
    const uint8x16_t elements = vcombine_u8(vzip1_u8(even, odd), vzip2_u8(even, odd));
    return vsubq_s8(vreinterpretq_s8_u8(elements), vdupq_n_s8(static_cast<std::int8_t>(block.zero())));
  }
};

template <>
struct NeonQuant<Q4_1> {
  template <std::size_t kIndex>
  static int8x16_t sixteen(const Q4_1::Block& block) {
    return vreinterpretq_s8_u8(nibbles<kIndex == 1>(block.qs));
  }
};

/// Returns 16 in element i if bit i of the two bytes is set, else 0.
inline uint8x16_t fifth_bits(const std::uint8_t* two_bytes) {
  const uint8x16_t spread = vcombine_u8(vdup_n_u8(two_bytes[0]), vdup_n_u8(two_bytes[1]));
  const uint8x8_t bit = vcreate_u8(0x8040201008040201ULL);
  return vandq_u8(vtstq_u8(spread, vcombine_u8(bit, bit)), vdupq_n_u8(16));
}

template <>
struct NeonQuant<Q5_0> {
  static constexpr int kZero = 16;
  template <std::size_t kIndex>
  static int8x16_t sixteen(const Q5_0::Block& block) {
    return vreinterpretq_s8_u8(vorrq_u8(nibbles<kIndex == 1>(block.qs), fifth_bits(block.qh + 2 * kIndex)));
  }
};

template <>
struct NeonQuant<Q5_1> {
  template <std::size_t kIndex>
  static int8x16_t sixteen(const Q5_1::Block& block) {
    return vreinterpretq_s8_u8(vorrq_u8(nibbles<kIndex == 1>(block.qs), fifth_bits(block.qh + 2 * kIndex)));
  }
};

template <>
struct NeonQuant<IQ4_NL> {
  template <std::size_t kIndex>
  static int8x16_t sixteen(const IQ4_NL::Block& block) {
    return vqtbl1q_s8(vld1q_s8(kNonLinear4), nibbles<kIndex == 1>(block.qs));
  }
};

template <>
struct NeonQuant<MXFP4> {
  template <std::size_t kIndex>
  static int8x16_t sixteen(const MXFP4::Block& block) {
    return vqtbl1q_s8(vld1q_s8(kFloat4), nibbles<kIndex == 1>(block.qs));
  }
};

template <>
struct NeonQuant<Q2_K> {
  template <std::size_t kIndex>
  static int8x16_t sixteen(const Q2_K::Block& block) {
    return vreinterpretq_s8_u8(pairs_of_bits<kIndex>(block.qs));
  }
  static int16x8x2_t widened(uint8x16_t a) {
    return {vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(a))), vreinterpretq_s16_u16(vmovl_high_u8(a))};
  }
  static int16x8x2_t scales(const Q2_K::Block& block) { return widened(nibbles<false>(block.scales)); }
  static int16x8x2_t offsets(const Q2_K::Block& block) { return widened(nibbles<true>(block.scales)); }
};

template <>
struct NeonQuant<Q3_K> {
  static constexpr int kZero = 4;
  template <std::size_t kIndex>
  static int8x16_t sixteen(const Q3_K::Block& block) {
    constexpr int kBit = static_cast<int>(kIndex / 2);
    const uint8x16_t third = bit_moved<kBit, 2>(vld1q_u8(block.hmask + kIndex % 2 * 16));
    return vreinterpretq_s8_u8(vorrq_u8(pairs_of_bits<kIndex>(block.qs), third));
  }
  static int16x8x2_t scales(const Q3_K::Block& block) {
    const std::uint32_t first = word_at(block.scales);
    const std::uint32_t second = word_at(block.scales + 4);
    const std::uint32_t upper = word_at(block.scales + 8);
    const auto join = [](std::uint32_t low, std::uint32_t high) {
      return (low & 0x0f0f0f0fU) | (high & 0x03030303U) << 4;
    };
    const uint8x8_t low = two_words(join(first, upper), join(second, upper >> 2));
    const uint8x8_t high = two_words(join(first >> 4, upper >> 4), join(second >> 4, upper >> 6));
    const int16x8_t zero = vdupq_n_s16(32);
    return {vsubq_s16(vreinterpretq_s16_u16(vmovl_u8(low)), zero),
            vsubq_s16(vreinterpretq_s16_u16(vmovl_u8(high)), zero)};
  }
};

struct NeonSixBitScales {
  static int16x8x2_t eight(std::uint32_t low, std::uint32_t high) {
    return {vreinterpretq_s16_u16(vmovl_u8(two_words(low, high))), vdupq_n_s16(0)};
  }
  static int16x8x2_t scales(const std::uint8_t (&s)[12]) {
    const std::uint32_t first = word_at(s);
    return eight(first & 0x3f3f3f3fU, (word_at(s + 8) & 0x0f0f0f0fU) | (first >> 6 & 0x03030303U) << 4);
  }
  static int16x8x2_t offsets(const std::uint8_t (&s)[12]) {
    const std::uint32_t second = word_at(s + 4);
    return eight(second & 0x3f3f3f3fU, (word_at(s + 8) >> 4 & 0x0f0f0f0fU) | (second >> 6 & 0x03030303U)
                                                                                 << 4);
  }
};

template <>
struct NeonQuant<Q4_K> {
  template <std::size_t kIndex>
  static int8x16_t sixteen(const Q4_K::Block& block) {
    return vreinterpretq_s8_u8(nibbles<kIndex % 4 / 2 == 1>(block.qs + kIndex / 4 * 32 + kIndex % 2 * 16));
  }
  static int16x8x2_t scales(const Q4_K::Block& block) { return NeonSixBitScales::scales(block.scales); }
  static int16x8x2_t offsets(const Q4_K::Block& block) { return NeonSixBitScales::offsets(block.scales); }
};

template <>
struct NeonQuant<Q5_K> {
  template <std::size_t kIndex>
  static int8x16_t sixteen(const Q5_K::Block& block) {
    const uint8x16_t low = vld1q_u8(block.qs + kIndex / 4 * 32 + kIndex % 2 * 16);
    const uint8x16_t high = vld1q_u8(block.qh + kIndex % 2 * 16);
    // As in Q6_K below: even bits of high move to bit 0 and join the low nibble, odd ones to bit 4 and the
    // high nibble.
    constexpr int kBit = static_cast<int>(kIndex / 2);
    constexpr int kTo = kBit % 2 == 0 ? 0 : 4;
    const uint8x16_t there = moved<kBit, kTo>(high);
    const uint8x16_t both = kBit % 2 == 0 ? vsliq_n_u8(low, there, 4) : vsriq_n_u8(there, low, 4);
    return vreinterpretq_s8_u8(kBit == 7 ? both : vandq_u8(both, vdupq_n_u8(31)));
  }
  static int16x8x2_t scales(const Q5_K::Block& block) { return NeonSixBitScales::scales(block.scales); }
  static int16x8x2_t offsets(const Q5_K::Block& block) { return NeonSixBitScales::offsets(block.scales); }
};

template <>
struct NeonQuant<Q6_K> {
  static constexpr int kZero = 32;
  template <std::size_t kIndex>
  static int8x16_t sixteen(const Q6_K::Block& block) {
    const uint8x16_t low = vld1q_u8(block.ql + kIndex / 8 * 64 + kIndex % 4 * 16);
    const uint8x16_t high = vld1q_u8(block.qh + kIndex / 8 * 32 + kIndex % 2 * 16);
    // A shift-and-insert combines a nibble of low (bits 0 ... 3) with two bits of high (bits 4 and 5). Which
    // two depends on kBitPair; the bits above are masked off.
    constexpr std::size_t kBitPair = kIndex % 8 / 2;
    const uint8x16_t there = kBitPair % 2 == 0 ? high : vshrq_n_u8(high, 2);
    const uint8x16_t both = kBitPair < 2 ? vsliq_n_u8(low, there, 4) : vsriq_n_u8(there, low, 4);
    return vreinterpretq_s8_u8(kBitPair == 3 ? both : vandq_u8(both, vdupq_n_u8(63)));
  }
  static int16x8x2_t scales(const Q6_K::Block& block) {
    const int8x16_t all = vld1q_s8(block.scales);
    return {vmovl_s8(vget_low_s8(all)), vmovl_high_s8(all)};
  }
};

template <>
struct NeonQuant<IQ4_XS> {
  template <std::size_t kIndex>
  static int8x16_t sixteen(const IQ4_XS::Block& block) {
    return vqtbl1q_s8(vld1q_s8(kNonLinear4), nibbles<kIndex % 2 == 1>(block.qs + kIndex / 2 * 16));
  }
  static int16x8x2_t scales(const IQ4_XS::Block& block) {
    const uint8x8_t bytes = two_words(word_at(block.scales_l), 0);
    const uint8x8_t low = vzip1_u8(vand_u8(bytes, vdup_n_u8(15)), vshr_n_u8(bytes, 4));
    const int16x8_t shifts = {0, -2, -4, -6, -8, -10, -12, -14};
    const uint16x8_t high = vandq_u16(vshlq_u16(vdupq_n_u16(block.scales_h), shifts), vdupq_n_u16(3));
    const uint16x8_t both = vorrq_u16(vmovl_u8(low), vshlq_n_u16(high, 4));
    return {vsubq_s16(vreinterpretq_s16_u16(both), vdupq_n_s16(32)), vdupq_n_s16(0)};
  }
};

[[gnu::always_inline]] inline float32x4_t four_halves(const std::uint16_t* a, const std::uint16_t* b,
                                                      const std::uint16_t* c, const std::uint16_t* d) {
  uint16x4_t all = vld1_dup_u16(a);
  all = vld1_lane_u16(b, all, 1);
  all = vld1_lane_u16(c, all, 2);
  all = vld1_lane_u16(d, all, 3);
  return vcvt_f32_f16(vreinterpret_f16_u16(all));
}

template <class Quant>
[[gnu::always_inline]] inline float32x4_t scales_of_four(const typename Quant::Block& a,
                                                         const typename Quant::Block& b,
                                                         const typename Quant::Block& c,
                                                         const typename Quant::Block& d) {
  if constexpr (std::is_same_v<Quant, MXFP4>) {
    const std::uint32_t exponents[4] = {a.e, b.e, c.e, d.e};
    uint32x4_t e = vdupq_n_u32(exponents[0]);
    e = vsetq_lane_u32(exponents[1], e, 1);
    e = vsetq_lane_u32(exponents[2], e, 2);
    e = vsetq_lane_u32(exponents[3], e, 3);
    const uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    const uint32x4_t subnormal = vshlq_u32(vdupq_n_u32(0x00200000U), vreinterpretq_s32_u32(e));
    return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), subnormal, normal));
  } else if constexpr (requires { a.d; }) {
    return four_halves(&a.d, &b.d, &c.d, &d.d);
  } else {
    float32x4_t scales = vdupq_n_f32(Quant::scale(a));
    scales = vsetq_lane_f32(Quant::scale(b), scales, 1);
    scales = vsetq_lane_f32(Quant::scale(c), scales, 2);
    return vsetq_lane_f32(Quant::scale(d), scales, 3);
  }
}

template <class Quant>
[[gnu::always_inline]] inline float32x4_t offsets_of_four(const typename Quant::Block& a,
                                                          const typename Quant::Block& b,
                                                          const typename Quant::Block& c,
                                                          const typename Quant::Block& d) {
  if constexpr (requires { a.m; }) {
    return four_halves(&a.m, &b.m, &c.m, &d.m);
  } else {
    return vnegq_f32(four_halves(&a.dmin, &b.dmin, &c.dmin, &d.dmin));
  }
}

/// Prefetches kBytes bytes, into L2 if kLarge, else into L1. Rows of weights are short, and the hardware
/// prefetcher restarts with each.
template <std::size_t kBytes, bool kLarge>
[[gnu::always_inline]] inline void prefetch_bytes(const void* from) {
  const auto* next = static_cast<const char*>(from);
  for (std::size_t byte = 0; byte < kBytes; byte += 64) __builtin_prefetch(next + byte, 0, kLarge ? 2 : 3);
}

template <class Quant>
inline constexpr bool kIsLarge = Quant::kFormat.block_bytes >= Quant::kFormat.block_size;

template <class Quant>
inline constexpr int kZeroOf = [] {
  if constexpr (requires { NeonQuant<Quant>::kZero; }) {
    return NeonQuant<Quant>::kZero;
  } else {
    return 0;
  }
}();

/// Returns q, without kZero, of elements 16 kIndex ... 16 kIndex + 15.
template <class Quant, std::size_t kIndex>
[[gnu::always_inline]] inline int8x16_t sixteen_integers(const typename Quant::Block& block) {
  const int8x16_t above = NeonQuant<Quant>::template sixteen<kIndex>(block);
  if constexpr (kZeroOf<Quant> == 0) return above;
  return vsubq_s8(above, vdupq_n_s8(kZeroOf<Quant>));
}

template <class Quant>
inline constexpr bool kHasGroupScales = requires(const typename Quant::Block& block) {
  NeonQuant<Quant>::scales(block);
};

// Blocks of several outputs interleaved for instructions that take several outputs at once. They are
// interleaved while packed, which moves fewer bytes. For formats with several groups per block.

/// The order for SDOT: words 0 of four vectors, words 1, ...
[[gnu::always_inline]] inline void interleave_words(const uint8x16_t (&from)[4], uint8x16_t (&to)[4]) {
  const auto pairs = [&](std::size_t i, bool odd) __attribute__((always_inline)) {
    const uint32x4_t a = vreinterpretq_u32_u8(from[i]);
    const uint32x4_t b = vreinterpretq_u32_u8(from[i + 1]);
    return vreinterpretq_u64_u32(odd ? vtrn2q_u32(a, b) : vtrn1q_u32(a, b));
  };
  to[0] = vreinterpretq_u8_u64(vtrn1q_u64(pairs(0, false), pairs(2, false)));
  to[1] = vreinterpretq_u8_u64(vtrn1q_u64(pairs(0, true), pairs(2, true)));
  to[2] = vreinterpretq_u8_u64(vtrn2q_u64(pairs(0, false), pairs(2, false)));
  to[3] = vreinterpretq_u8_u64(vtrn2q_u64(pairs(0, true), pairs(2, true)));
}

/// The order for SMMLA: first halves of two vectors, their second halves, then the next two vectors.
template <std::size_t kCount>
[[gnu::always_inline]] inline void interleave_halves(const uint8x16_t (&from)[kCount],
                                                     uint8x16_t (&to)[kCount]) {
  for_each_index<kCount / 2>([&](auto pair) __attribute__((always_inline)) {
    const uint64x2_t a = vreinterpretq_u64_u8(from[2 * pair]);
    const uint64x2_t b = vreinterpretq_u64_u8(from[2 * pair + 1]);
    to[2 * pair] = vreinterpretq_u8_u64(vzip1q_u64(a, b));
    to[2 * pair + 1] = vreinterpretq_u8_u64(vzip2q_u64(a, b));
  });
}

/// Interleaves the blocks of kCount outputs: kInterleave permutes each group of sixteen packed bytes across
/// the outputs, and parts[i].block gets vector i of the result. Unpacking parts[i] then gives the operands of
/// the instruction.
template <class Quant, std::size_t kCount,
          void (*kInterleave)(const uint8x16_t (&)[kCount], uint8x16_t (&)[kCount])>
struct InterleavedBlocks {
  using Block = typename Quant::Block;
  struct alignas(16) Aligned {
    Block block;
  };
  Aligned parts[kCount];

  [[gnu::always_inline]] void interleave(const Block* const (&from)[kCount]) {
    if constexpr (requires(Block b) { b.qs; }) interleave_array<&Block::qs>(from);
    if constexpr (requires(Block b) { b.ql; }) interleave_array<&Block::ql>(from);
    if constexpr (requires(Block b) { b.qh; }) interleave_array<&Block::qh>(from);
    if constexpr (requires(Block b) { b.hmask; }) interleave_array<&Block::hmask>(from);
  }

 private:
  template <auto kArray>
  [[gnu::always_inline]] void interleave_array(const Block* const (&from)[kCount]) {
    constexpr std::size_t kVectors = sizeof(Block{}.*kArray) / 16;
    static_assert(sizeof(Block{}.*kArray) % 16 == 0);
    for_each_index<kVectors>([&](auto i) __attribute__((always_inline)) {
      uint8x16_t packed[kCount];
      uint8x16_t interleaved[kCount];
      for (std::size_t j = 0; j < kCount; ++j) packed[j] = vld1q_u8(from[j]->*kArray + 16 * i);
      kInterleave(packed, interleaved);
      for (std::size_t j = 0; j < kCount; ++j) vst1q_u8(parts[j].block.*kArray + 16 * i, interleaved[j]);
    });
  }
};

/// The group scales of four outputs: one int16 vector of four per group, two groups per register.
template <class Quant>
struct GroupScales {
  using Block = typename Quant::Block;
  static constexpr std::size_t kGroups = Quant::kFormat.block_size / Quant::kGroup;
  int16x8_t pairs[kGroups / 2];

  [[gnu::always_inline]] GroupScales(const Block& first, const Block& second, const Block& third,
                                     const Block& fourth) {
    using Neon = NeonQuant<Quant>;
    const int16x8x2_t of[4] = {Neon::scales(first), Neon::scales(second), Neon::scales(third),
                               Neon::scales(fourth)};
    for_each_index<kGroups / 8>([&](auto eight) __attribute__((always_inline)) {
      const int16x8_t low_even = vzip1q_s16(of[0].val[eight], of[2].val[eight]);
      const int16x8_t low_odd = vzip1q_s16(of[1].val[eight], of[3].val[eight]);
      const int16x8_t high_even = vzip2q_s16(of[0].val[eight], of[2].val[eight]);
      const int16x8_t high_odd = vzip2q_s16(of[1].val[eight], of[3].val[eight]);
      pairs[4 * eight] = vzip1q_s16(low_even, low_odd);
      pairs[4 * eight + 1] = vzip2q_s16(low_even, low_odd);
      pairs[4 * eight + 2] = vzip1q_s16(high_even, high_odd);
      pairs[4 * eight + 3] = vzip2q_s16(high_even, high_odd);
    });
  }
  template <std::size_t kGroup>
  [[gnu::always_inline]] int32x4_t wide() const {
    const int16x8_t pair = pairs[kGroup / 2];
    return kGroup % 2 == 0 ? vmovl_s16(vget_low_s16(pair)) : vmovl_high_s16(pair);
  }
};

}  // namespace
}  // namespace reprise::gpu
