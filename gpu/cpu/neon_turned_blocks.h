// Blocks of a quantised format (quant.h), one of each of several outputs, as products want them that take several at once:
// turned while they are packed, which are fewer bytes than their numbers. For formats whose blocks have several groups.
// Included by the kernel sources, with internal linkage.

#pragma once

#include <arm_neon.h>

#include <cstddef>

#include "gpu/cpu/lanes.h"
#include "gpu/cpu/neon_quants.h"

namespace reprise::gpu {
namespace {

/// What SDOT takes: words 0 of four vectors, words 1, ...
[[gnu::always_inline]] inline void turn_words(const uint8x16_t (&from)[4], uint8x16_t (&to)[4]) {
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

/// What SMMLA takes: first halves of two vectors, second halves, and the same of the next two.
template <std::size_t kCount>
[[gnu::always_inline]] inline void turn_halves(const uint8x16_t (&from)[kCount], uint8x16_t (&to)[kCount]) {
  for_each_index<kCount / 2>([&](auto pair) __attribute__((always_inline)) {
    const uint64x2_t a = vreinterpretq_u64_u8(from[2 * pair]);
    const uint64x2_t b = vreinterpretq_u64_u8(from[2 * pair + 1]);
    to[2 * pair] = vreinterpretq_u8_u64(vzip1q_u64(a, b));
    to[2 * pair + 1] = vreinterpretq_u8_u64(vzip2q_u64(a, b));
  });
}

/// Blocks of several outputs whose bytes are turned: where a block has sixteen bytes of its numbers, stands in parts[i].block
/// what kTurn makes its i-th of those sixteen of each. Unpacked, they are what a product takes.
template <class Quant, std::size_t kCount,
          void (*kTurn)(const uint8x16_t (&)[kCount], uint8x16_t (&)[kCount])>
struct TurnedBlocks {
  using Block = typename Quant::Block;
  struct alignas(16) Aligned {
    Block block;
  };
  Aligned parts[kCount];

  [[gnu::always_inline]] void turn(const Block* const (&from)[kCount]) {
    // What Q2_K ... IQ4_XS keep their numbers in.
    if constexpr (requires(Block b) { b.qs; }) turn_array<&Block::qs>(from);
    if constexpr (requires(Block b) { b.ql; }) turn_array<&Block::ql>(from);
    if constexpr (requires(Block b) { b.qh; }) turn_array<&Block::qh>(from);
    if constexpr (requires(Block b) { b.hmask; }) turn_array<&Block::hmask>(from);
  }

 private:
  template <auto kArray>
  [[gnu::always_inline]] void turn_array(const Block* const (&from)[kCount]) {
    constexpr std::size_t kVectors = sizeof(Block{}.*kArray) / 16;
    static_assert(sizeof(Block{}.*kArray) % 16 == 0);
    for_each_index<kVectors>([&](auto i) __attribute__((always_inline)) {
      uint8x16_t packed[kCount];
      uint8x16_t turned[kCount];
      for (std::size_t j = 0; j < kCount; ++j) packed[j] = vld1q_u8(from[j]->*kArray + 16 * i);
      kTurn(packed, turned);
      for (std::size_t j = 0; j < kCount; ++j) vst1q_u8(parts[j].block.*kArray + 16 * i, turned[j]);
    });
  }
};

/// Scales of groups of four outputs: of each group one vector, two groups to a register.
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
