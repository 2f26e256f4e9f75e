// Unpacks quantized formats to bytes with AVX2, 256 elements of a row at a time, for int8_panels.h.
//
// Bytes<Quant> describes a format:
//   kZero       added to the integers to make them unsigned
//   kMaxSize    upper bound of the bytes
//   kSigned     true: bytes stay signed, because the integers need all eight bits and the processor has no
//               unsigned multiplication without saturation
//   unpack()    unpacks a block: of 256, to bytes and scales; of 32, returns its 32 bytes

#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpu/cpu/formats/quants.h"
#include "gpu/cpu/x86/x86_vectors.h"

namespace reprise::gpu {
namespace {

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
inline constexpr bool kHasDotOfBytes = true;  // VPDPBUSD: u8 x s8 into int32 without saturation
#else
inline constexpr bool kHasDotOfBytes = false;
#endif

/// 256 unpacked elements of a row. Words are int32 or f32.
struct BytesOfRow {
  alignas(64) std::uint8_t q[256];
  // Blocks of 256: the group scales, then per 32 elements a pair of int16 group offsets, which multiply the
  // sums of x over its two groups of 16. Blocks of 32: the f32 scales of eight blocks, then their offsets.
  alignas(64) std::uint32_t words[32];
  float scale;   // blocks of 256 only
  float offset;  // blocks of 256 only
};

inline float f32_of_half(std::uint16_t half) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}
inline void set_float(std::uint32_t& word, float value) {
  std::memcpy(&word, &value, sizeof(value));
}

/// Returns bits [kShift, kShift + width of mask) of each byte.
template <int kShift>
inline __m256i bits_of_bytes(__m256i v, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, kShift), _mm256_set1_epi8(static_cast<char>(mask)));
}
/// Returns `value` in each byte whose bit `bit` is set, else 0.
inline __m256i bit_as(__m256i v, int bit, int value) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(1 << bit));
  const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(v, mask), mask);
  return _mm256_and_si256(is_set, _mm256_set1_epi8(static_cast<char>(value)));
}
/// Returns 32 elements: the low nibbles of sixteen bytes, then the high nibbles.
inline __m256i nibbles_of_16(const std::uint8_t* qs) {
  const __m128i raw = load_16(qs);
  return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(raw, 4), raw), _mm256_set1_epi8(15));
}
/// Expands bit k of a word to 0 or `value` in byte k.
inline __m256i bits_as_bytes(const std::uint8_t (&bits)[4], int value) {
  std::int32_t word;
  std::memcpy(&word, bits, sizeof(word));
  const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit_of = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
  const __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), byte_of), bit_of);
  return _mm256_and_si256(_mm256_cmpeq_epi8(spread, bit_of), _mm256_set1_epi8(static_cast<char>(value)));
}
/// Looks up 32 indices and adds `zero`.
inline __m256i look_up(const std::int8_t (&numbers)[16], __m256i index, int zero) {
  const __m256i table = _mm256_broadcastsi128_si256(load_16(numbers));
  return _mm256_add_epi8(_mm256_shuffle_epi8(table, index), _mm256_set1_epi8(static_cast<char>(zero)));
}

template <class Quant>
struct Bytes;

/// Formats whose integers need eight bits: unsigned if the processor can multiply such bytes.
struct WholeBytes {
  static constexpr bool kSigned = !kHasDotOfBytes;
  static constexpr int kZero = kSigned ? 0 : 128;
  static constexpr int kMaxSize = 255;
};
template <int kZeroOf, int kMaxOf>
struct SmallBytes {
  static constexpr bool kSigned = false;
  static constexpr int kZero = kZeroOf;
  static constexpr int kMaxSize = kMaxOf;
};

template <>
struct Bytes<Q8_0> : WholeBytes {
  static __m256i unpack(const Q8_0::Block& block) {
    return _mm256_add_epi8(load_32(block.qs), _mm256_set1_epi8(static_cast<char>(kZero)));
  }
};
template <>
struct Bytes<Q4_0> : SmallBytes<8, 15> {
  static __m256i unpack(const Q4_0::Block& block) { return nibbles_of_16(block.qs); }
};
template <>
struct Bytes<Q4_1> : SmallBytes<0, 15> {
  static __m256i unpack(const Q4_1::Block& block) { return nibbles_of_16(block.qs); }
};
template <>
struct Bytes<Q5_0> : SmallBytes<16, 31> {
  static __m256i unpack(const Q5_0::Block& block) {
    return _mm256_or_si256(nibbles_of_16(block.qs), bits_as_bytes(block.qh, 16));
  }
};
template <>
struct Bytes<Q5_1> : SmallBytes<0, 31> {
  static __m256i unpack(const Q5_1::Block& block) {
    return _mm256_or_si256(nibbles_of_16(block.qs), bits_as_bytes(block.qh, 16));
  }
};
template <>
struct Bytes<IQ4_NL> : WholeBytes {
  static __m256i unpack(const IQ4_NL::Block& block) {
    return look_up(IQ4_NL::kNumbers, nibbles_of_16(block.qs), kZero);
  }
};
template <>
struct Bytes<MXFP4> : SmallBytes<12, 24> {
  static __m256i unpack(const MXFP4::Block& block) {
    return look_up(MXFP4::kNumbers, nibbles_of_16(block.qs), kZero);
  }
};

inline void unpack_six_bits(const std::uint8_t (&from)[12], std::uint32_t* words) {
  std::uint32_t s[3];
  std::memcpy(s, from, sizeof(s));
  const std::uint32_t parts[4] = {s[0] & 0x3f3f3f3fU, (s[2] & 0x0f0f0f0fU) | (s[0] >> 6 & 0x03030303U) << 4,
                                  s[1] & 0x3f3f3f3fU,
                                  (s[2] >> 4 & 0x0f0f0f0fU) | (s[1] >> 6 & 0x03030303U) << 4};
  const __m128i all = load_16(parts);
  store_32(_mm256_cvtepu8_epi32(all), words);
  const __m256i offsets = _mm256_cvtepu8_epi32(_mm_srli_si128(all, 8));
  store_32(_mm256_or_si256(offsets, _mm256_slli_epi32(offsets, 16)), words + 8);
}

template <>
struct Bytes<Q2_K> : SmallBytes<0, 3> {
  static void unpack(const Q2_K::Block& block, BytesOfRow& to) {
    for (int half = 0; half < 2; ++half) {
      const __m256i raw = load_32(block.qs + 32 * half);
      std::uint8_t* q = to.q + 128 * half;
      store_32(bits_of_bytes<0>(raw, 3), q);
      store_32(bits_of_bytes<2>(raw, 3), q + 32);
      store_32(bits_of_bytes<4>(raw, 3), q + 64);
      store_32(bits_of_bytes<6>(raw, 3), q + 96);
    }
    const __m128i both = load_16(block.scales);
    const __m128i scales = _mm_and_si128(both, _mm_set1_epi8(15));
    const __m128i offsets = _mm_and_si128(_mm_srli_epi16(both, 4), _mm_set1_epi8(15));
    store_32(_mm256_cvtepu8_epi32(scales), to.words);
    store_32(_mm256_cvtepu8_epi32(_mm_srli_si128(scales, 8)), to.words + 8);
    store_32(_mm256_cvtepu8_epi16(offsets), to.words + 16);
    to.scale = f32_of_half(block.d);
    to.offset = -f32_of_half(block.dmin);
  }
};

template <>
struct Bytes<Q3_K> : SmallBytes<4, 7> {
  static void unpack(const Q3_K::Block& block, BytesOfRow& to) {
    const __m256i third = load_32(block.hmask);
    for (int half = 0; half < 2; ++half) {
      const __m256i raw = load_32(block.qs + 32 * half);
      std::uint8_t* q = to.q + 128 * half;
      const auto put = [&](__m256i low, int quarter) {
        store_32(_mm256_or_si256(low, bit_as(third, 4 * half + quarter, 4)), q + 32 * quarter);
      };
      put(bits_of_bytes<0>(raw, 3), 0);
      put(bits_of_bytes<2>(raw, 3), 1);
      put(bits_of_bytes<4>(raw, 3), 2);
      put(bits_of_bytes<6>(raw, 3), 3);
    }
    // Sixteen scales of six bits: the low four in the nibbles of eight bytes, the high two in four more.
    std::int32_t last;
    std::memcpy(&last, block.scales + 8, sizeof(last));
    const __m128i upper =
        _mm_and_si128(_mm_srlv_epi32(_mm_set1_epi32(last), _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(3));
    const __m128i first = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block.scales));
    const __m128i lower =
        _mm_and_si128(_mm_unpacklo_epi64(first, _mm_srli_epi16(first, 4)), _mm_set1_epi8(15));
    const __m128i scales = _mm_sub_epi8(_mm_or_si128(lower, _mm_slli_epi16(upper, 4)), _mm_set1_epi8(32));
    store_32(_mm256_cvtepi8_epi32(scales), to.words);
    store_32(_mm256_cvtepi8_epi32(_mm_srli_si128(scales, 8)), to.words + 8);
    to.scale = f32_of_half(block.d);
  }
};

template <>
struct Bytes<Q4_K> : SmallBytes<0, 15> {
  static void unpack(const Q4_K::Block& block, BytesOfRow& to) {
    for (int part = 0; part < 4; ++part) {
      const __m256i raw = load_32(block.qs + 32 * part);
      store_32(bits_of_bytes<0>(raw, 15), to.q + 64 * part);
      store_32(bits_of_bytes<4>(raw, 15), to.q + 64 * part + 32);
    }
    unpack_six_bits(block.scales, to.words);
    to.scale = f32_of_half(block.d);
    to.offset = -f32_of_half(block.dmin);
  }
};

template <>
struct Bytes<Q5_K> : SmallBytes<0, 31> {
  static void unpack(const Q5_K::Block& block, BytesOfRow& to) {
    const __m256i fifth = load_32(block.qh);
    for (int part = 0; part < 4; ++part) {
      const __m256i raw = load_32(block.qs + 32 * part);
      const auto put = [&](__m256i low, int group) {
        store_32(_mm256_or_si256(low, bit_as(fifth, group, 16)), to.q + 32 * group);
      };
      put(bits_of_bytes<0>(raw, 15), 2 * part);
      put(bits_of_bytes<4>(raw, 15), 2 * part + 1);
    }
    unpack_six_bits(block.scales, to.words);
    to.scale = f32_of_half(block.d);
    to.offset = -f32_of_half(block.dmin);
  }
};

template <>
struct Bytes<Q6_K> : SmallBytes<32, 63> {
  static void unpack(const Q6_K::Block& block, BytesOfRow& to) {
    for (int half = 0; half < 2; ++half) {
      const __m256i first = load_32(block.ql + 64 * half);
      const __m256i second = load_32(block.ql + 64 * half + 32);
      const __m256i upper = load_32(block.qh + 32 * half);
      std::uint8_t* q = to.q + 128 * half;
      const __m256i two_bits = _mm256_set1_epi8(0x30);
      const auto put = [&](__m256i low, __m256i moved, int quarter) {
        store_32(_mm256_or_si256(low, _mm256_and_si256(moved, two_bits)), q + 32 * quarter);
      };
      put(bits_of_bytes<0>(first, 15), _mm256_slli_epi16(upper, 4), 0);
      put(bits_of_bytes<0>(second, 15), _mm256_slli_epi16(upper, 2), 1);
      put(bits_of_bytes<4>(first, 15), upper, 2);
      put(bits_of_bytes<4>(second, 15), _mm256_srli_epi16(upper, 2), 3);
    }
    const __m128i scales = load_16(block.scales);
    store_32(_mm256_cvtepi8_epi32(scales), to.words);
    store_32(_mm256_cvtepi8_epi32(_mm_srli_si128(scales, 8)), to.words + 8);
    to.scale = f32_of_half(block.d);
  }
};

template <>
struct Bytes<IQ4_XS> : WholeBytes {
  static void unpack(const IQ4_XS::Block& block, BytesOfRow& to) {
    for (std::size_t g = 0; g < 8; ++g) {
      store_32(look_up(IQ4_XS::kNumbers, nibbles_of_16(block.qs + 16 * g), kZero), to.q + 32 * g);
    }
    // Eight scales of six bits: the low four in one word, the high two in another.
    std::int32_t low;
    std::memcpy(&low, block.scales_l, sizeof(low));
    const __m256i eight = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i lower = _mm256_and_si256(
        _mm256_srlv_epi32(_mm256_set1_epi32(low), _mm256_slli_epi32(eight, 2)), _mm256_set1_epi32(15));
    const __m256i upper =
        _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(block.scales_h), _mm256_slli_epi32(eight, 1)),
                         _mm256_set1_epi32(3));
    store_32(_mm256_sub_epi32(_mm256_or_si256(lower, _mm256_slli_epi32(upper, 4)), _mm256_set1_epi32(32)),
             to.words);
    to.scale = f32_of_half(block.d);
  }
};

/// The scales of eight blocks of 32, and their offsets if the format has them.
template <class Quant>
struct ScalesOfEight {
  using Block = typename Quant::Block;
  __m256 scales;
  __m256 offsets;

  explicit ScalesOfEight(const Block* blocks) {
    if constexpr (std::is_same_v<Quant, MXFP4>) {
      scales = powers(blocks);
    } else {
      scales = halves([&](int b) { return static_cast<short>(blocks[b].d); });
    }
    if constexpr (Quant::kHasOffsets) {
      offsets = halves([&](int b) { return static_cast<short>(blocks[b].m); });
    }
  }

 private:
  template <class Half>
  static __m256 halves(Half half) {
    return _mm256_cvtph_ps(
        _mm_setr_epi16(half(0), half(1), half(2), half(3), half(4), half(5), half(6), half(7)));
  }
  static __m256 powers(const Block* blocks) {
    const __m256i e = _mm256_setr_epi32(blocks[0].e, blocks[1].e, blocks[2].e, blocks[3].e, blocks[4].e,
                                        blocks[5].e, blocks[6].e, blocks[7].e);
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    return _mm256_castsi256_ps(
        _mm256_blendv_epi8(normal, subnormal, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
  }
};

/// Stores the scales of `count` <= 8 blocks, and from to[8] on their offsets.
template <class Quant>
inline void store_scales(const typename Quant::Block* blocks, std::size_t count, std::uint32_t (&to)[32]) {
  if (count == 8) {
    const ScalesOfEight<Quant> all(blocks);
    store_32(_mm256_castps_si256(all.scales), to);
    if constexpr (Quant::kHasOffsets) store_32(_mm256_castps_si256(all.offsets), to + 8);
    return;
  }
  for (std::size_t b = 0; b < count; ++b) {
    set_float(to[b], Quant::scale(blocks[b]));
    if constexpr (Quant::kHasOffsets) set_float(to[b + 8], Quant::offset(blocks[b]));
  }
}

/// Unpacks up to 256 elements of a row: one block of 256, or `blocks` <= 8 of 32.
template <class Quant>
inline void unpack_bytes(const typename Quant::Block* from, std::size_t blocks, BytesOfRow& to) {
  if constexpr (Quant::kFormat.block_size == 256) {
    Bytes<Quant>::unpack(*from, to);
  } else {
    for (std::size_t b = 0; b < blocks; ++b) store_32(Bytes<Quant>::unpack(from[b]), to.q + 32 * b);
    store_scales<Quant>(from, blocks, to.words);
  }
}

}  // namespace
}  // namespace reprise::gpu
