// S of a block (int8_product.h) for four outputs at a time, with SDOT: the groups' offsets times the sums of x over these groups. A
// sum of x has more than eight bits, so it is split, s = 64 h + l with 0 <= l < 64: two products of bytes for four groups
// instead of four of words, which have one pipe alone. Included by the kernel sources for processors with FEAT_DotProd, with
// internal linkage.

#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "gpu/cpu/lanes.h"
#include "gpu/cpu/neon_quants.h"

namespace reprise::gpu {
namespace {

/// Of a row of x, over a block of 256: |s| <= 32 * 127.
template <std::size_t kGroups>
struct SplitSums {
  static_assert(kGroups == 8 || kGroups == 16);
  static constexpr std::size_t kFours = kGroups / 4;
  int8x16_t bytes[kGroups / 8];  // h of all groups, then l

  /// sums: of sixteen elements each.
  static SplitSums of(const std::int16_t* sums) {
    const int16x8_t low = vld1q_s16(sums);
    const int16x8_t high = vld1q_s16(sums + 8);
    if constexpr (kGroups == 8) {
      const int16x8_t all = vpaddq_s16(low, high);
      return {{vcombine_s8(upper(all), lower(all))}};
    } else {
      return {{vcombine_s8(upper(low), upper(high)), vcombine_s8(lower(low), lower(high))}};
    }
  }

 private:
  static int8x8_t upper(int16x8_t sums) { return vshrn_n_s16(sums, 6); }
  static int8x8_t lower(int16x8_t sums) { return vmovn_s16(vandq_s16(sums, vdupq_n_s16(63))); }
};

/// Of four outputs: four groups of each to a vector.
template <std::size_t kGroups>
struct OffsetBytes {
  static constexpr std::size_t kFours = kGroups / 4;
  int8x16_t of[kFours];

  /// numbers: of each output, as many int16 as there are groups, all of 0 ... 127.
  static OffsetBytes turned(const int16x8x2_t (&numbers)[4]) {
    OffsetBytes bytes;
    for (std::size_t eight = 0; eight < kGroups / 8; ++eight) {
      const int32x4_t first = vreinterpretq_s32_s8(
          vcombine_s8(vmovn_s16(numbers[0].val[eight]), vmovn_s16(numbers[1].val[eight])));
      const int32x4_t second = vreinterpretq_s32_s8(
          vcombine_s8(vmovn_s16(numbers[2].val[eight]), vmovn_s16(numbers[3].val[eight])));
      bytes.of[2 * eight] = vreinterpretq_s8_s32(vuzp1q_s32(first, second));
      bytes.of[2 * eight + 1] = vreinterpretq_s8_s32(vuzp2q_s32(first, second));
    }
    return bytes;
  }

  [[gnu::always_inline]] int32x4_t weigh(const SplitSums<kGroups>& x) const {
    int32x4_t sum = vdupq_n_s32(0);
    for_each_index<kFours>([&](auto four) __attribute__((always_inline)) {
      sum = vdotq_laneq_s32(sum, of[four], x.bytes[four / 4], four % 4);
    });
    sum = vshlq_n_s32(sum, 6);
    for_each_index<kFours>([&](auto four) __attribute__((always_inline)) {
      constexpr std::size_t kBehind = kFours + decltype(four)::value;
      sum = vdotq_laneq_s32(sum, of[four], x.bytes[kBehind / 4], kBehind % 4);
    });
    return sum;
  }
};

/// Those of four blocks.
template <class Quant, class Block = typename Quant::Block>
[[gnu::always_inline]] inline auto offset_bytes(const Block& a, const Block& b, const Block& c,
                                                const Block& d) {
  using Neon = NeonQuant<Quant>;
  return OffsetBytes<Quant::kFormat.block_size / Quant::kGroup>::turned(
      {Neon::offsets(a), Neon::offsets(b), Neon::offsets(c), Neon::offsets(d)});
}

}  // namespace
}  // namespace reprise::gpu
