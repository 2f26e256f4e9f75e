// Vectors of floats: apart from GEMMs, the only code of the CPU kernels that depends on the instruction set.
//
// Lanes has eight floats on every instruction set, which fixes the bits of horizontal sums. WideLanes fills a
// register (16 floats with AVX-512, else 8) and is for arithmetic without horizontal operations, whose bits
// do not depend on the width; it can also hold two Lanes side by side.
//
// All has internal linkage, so that code compiled for one instruction set is never linked into another.
// REPRISE_LANES_PLAIN selects the portable version.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__aarch64__) && !defined(REPRISE_LANES_PLAIN)
#include <arm_neon.h>
#elif defined(__AVX2__) && !defined(REPRISE_LANES_PLAIN)
#include <immintrin.h>
#endif

namespace reprise::gpu {
namespace {

inline float bf16_to_f32(std::uint16_t value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

inline std::uint16_t f32_to_bf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffU) > 0x7f800000U)
    return static_cast<std::uint16_t>((bits >> 16) | 0x40U);  // keep NaN a NaN
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline float f16_to_f32(std::uint16_t value) {
#if defined(__aarch64__) && !defined(REPRISE_LANES_PLAIN)
  __fp16 half;
  std::memcpy(&half, &value, sizeof(half));
  return half;
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(value & 0x8000U) << 16;
  const std::uint32_t exponent = (value >> 10) & 0x1fU;
  const std::uint32_t fraction = value & 0x3ffU;
  std::uint32_t bits;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    std::memcpy(&bits, &magnitude, sizeof(bits));
    bits |= sign;
  } else if (exponent == 31) {
    bits = sign | 0x7f800000U | (fraction << 13);
  } else {
    bits = sign | ((exponent + 112) << 23) | (fraction << 13);
  }
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
#endif
}

#if defined(__aarch64__) && !defined(REPRISE_LANES_PLAIN)

// The largest GEMM tile whose accumulators and operands fit the registers.
inline constexpr int kTileRows = 4;
inline constexpr int kTileOutputs = 2;

struct Lanes {
  float32x4_t low, high;

  static Lanes set(float value) { return {vdupq_n_f32(value), vdupq_n_f32(value)}; }
  static Lanes load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
  static Lanes load_bf16(const std::uint16_t* p) {
    const uint16x8_t raw = vld1q_u16(p);
    const uint16x8_t zero = vdupq_n_u16(0);  // zip: a Neoverse N1 has half as many pipes for shifts
    return {vreinterpretq_f32_u16(vzip1q_u16(zero, raw)), vreinterpretq_f32_u16(vzip2q_u16(zero, raw))};
  }
  static Lanes load_f16(const std::uint16_t* p) {
    const float16x8_t raw = vreinterpretq_f16_u16(vld1q_u16(p));
    return {vcvt_f32_f16(vget_low_f16(raw)), vcvt_high_f32_f16(raw)};
  }
  void store(float* p) const {
    vst1q_f32(p, low);
    vst1q_f32(p + 4, high);
  }
};

inline Lanes operator+(Lanes a, Lanes b) {
  return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}
inline Lanes operator-(Lanes a, Lanes b) {
  return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
}
inline Lanes operator*(Lanes a, Lanes b) {
  return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}
inline Lanes operator/(Lanes a, Lanes b) {
  return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)};
}
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}
inline Lanes min(Lanes a, Lanes b) {
  return {vminnmq_f32(a.low, b.low), vminnmq_f32(a.high, b.high)};
}
inline Lanes max(Lanes a, Lanes b) {
  return {vmaxnmq_f32(a.low, b.low), vmaxnmq_f32(a.high, b.high)};
}
inline Lanes sqrt(Lanes a) {
  return {vsqrtq_f32(a.low), vsqrtq_f32(a.high)};
}

/// x * 2^n for n given as the float n + 1.5 * 2^23.
inline Lanes scale_by_power(Lanes x, Lanes shifted) {
  const auto part = [](float32x4_t value, float32x4_t n) {
    const int32x4_t exponent = vshlq_n_s32(vreinterpretq_s32_f32(n), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(value), exponent));
  };
  return {part(x.low, shifted.low), part(x.high, shifted.high)};
}

inline float sum(Lanes a) {
  const float32x4_t four = vaddq_f32(a.low, a.high);
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float largest(Lanes a) {
  return vmaxnmvq_f32(vmaxnmq_f32(a.low, a.high));
}

#elif defined(__AVX2__) && !defined(REPRISE_LANES_PLAIN)

inline constexpr int kTileRows = 3;
inline constexpr int kTileOutputs = 4;

struct Lanes {
  __m256 all;

  static Lanes set(float value) { return {_mm256_set1_ps(value)}; }
  static Lanes load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Lanes load_bf16(const std::uint16_t* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
  }
  static Lanes load_f16(const std::uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  void store(float* p) const { _mm256_storeu_ps(p, all); }
};

inline Lanes operator+(Lanes a, Lanes b) {
  return {_mm256_add_ps(a.all, b.all)};
}
inline Lanes operator-(Lanes a, Lanes b) {
  return {_mm256_sub_ps(a.all, b.all)};
}
inline Lanes operator*(Lanes a, Lanes b) {
  return {_mm256_mul_ps(a.all, b.all)};
}
inline Lanes operator/(Lanes a, Lanes b) {
  return {_mm256_div_ps(a.all, b.all)};
}
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.all, b.all, c.all)};
}
inline Lanes min(Lanes a, Lanes b) {
  return {_mm256_min_ps(a.all, b.all)};
}
inline Lanes max(Lanes a, Lanes b) {
  return {_mm256_max_ps(a.all, b.all)};
}
inline Lanes sqrt(Lanes a) {
  return {_mm256_sqrt_ps(a.all)};
}

inline Lanes scale_by_power(Lanes x, Lanes shifted) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted.all), 23);
  return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.all), exponent))};
}

inline float sum(Lanes a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a.all), _mm256_extractf128_ps(a.all, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float largest(Lanes a) {
  float values[8];
  a.store(values);
  float result = values[0];
  for (int i = 1; i < 8; ++i) result = result > values[i] ? result : values[i];
  return result;
}

#else

inline constexpr int kTileRows = 3;
inline constexpr int kTileOutputs = 4;

struct Lanes {
  float lane[8];

  static Lanes set(float value) {
    Lanes result;
    for (float& x : result.lane) x = value;
    return result;
  }
  static Lanes load(const float* p) {
    Lanes result;
    std::memcpy(result.lane, p, sizeof(result.lane));
    return result;
  }
  static Lanes load_bf16(const std::uint16_t* p) {
    Lanes result;
    for (int i = 0; i < 8; ++i) result.lane[i] = bf16_to_f32(p[i]);
    return result;
  }
  static Lanes load_f16(const std::uint16_t* p) {
    Lanes result;
    for (int i = 0; i < 8; ++i) result.lane[i] = f16_to_f32(p[i]);
    return result;
  }
  void store(float* p) const { std::memcpy(p, lane, sizeof(lane)); }
};

template <class Function>
inline Lanes each(Lanes a, Lanes b, Function function) {
  for (int i = 0; i < 8; ++i) a.lane[i] = function(a.lane[i], b.lane[i]);
  return a;
}
inline Lanes operator+(Lanes a, Lanes b) {
  return each(a, b, [](float x, float y) { return x + y; });
}
inline Lanes operator-(Lanes a, Lanes b) {
  return each(a, b, [](float x, float y) { return x - y; });
}
inline Lanes operator*(Lanes a, Lanes b) {
  return each(a, b, [](float x, float y) { return x * y; });
}
inline Lanes operator/(Lanes a, Lanes b) {
  return each(a, b, [](float x, float y) { return x / y; });
}
inline Lanes min(Lanes a, Lanes b) {
  return each(a, b, [](float x, float y) { return x < y ? x : y; });
}
inline Lanes max(Lanes a, Lanes b) {
  return each(a, b, [](float x, float y) { return x > y ? x : y; });
}
inline Lanes sqrt(Lanes a) {
  return each(a, a, [](float x, float) { return std::sqrt(x); });
}
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  for (int i = 0; i < 8; ++i) c.lane[i] = std::fma(a.lane[i], b.lane[i], c.lane[i]);
  return c;
}

inline Lanes scale_by_power(Lanes x, Lanes shifted) {
  for (int i = 0; i < 8; ++i) {
    std::uint32_t value;
    std::uint32_t exponent;
    std::memcpy(&value, &x.lane[i], sizeof(value));
    std::memcpy(&exponent, &shifted.lane[i], sizeof(exponent));
    value += exponent << 23;
    std::memcpy(&x.lane[i], &value, sizeof(value));
  }
  return x;
}

inline float sum(Lanes a) {
  float four[4];
  for (int i = 0; i < 4; ++i) four[i] = a.lane[i] + a.lane[i + 4];
  return (four[0] + four[2]) + (four[1] + four[3]);
}
inline float largest(Lanes a) {
  float result = a.lane[0];
  for (int i = 1; i < 8; ++i) result = result > a.lane[i] ? result : a.lane[i];
  return result;
}

#endif

/// Loads the first `count` < 8 elements, then zeros.
inline Lanes load_some(const float* p, std::size_t count) {
  float padded[8] = {};
  std::memcpy(padded, p, count * sizeof(float));
  return Lanes::load(padded);
}
inline void store_some(Lanes a, float* p, std::size_t count) {
  float values[8];
  a.store(values);
  std::memcpy(p, values, count * sizeof(float));
}

#if defined(__AVX512F__) && !defined(REPRISE_LANES_PLAIN)

inline constexpr std::size_t kWideLanes = 16;
inline constexpr int kLanesOfWide = 2;  // number of Lanes in a WideLanes

struct WideLanes {
  __m512 all;

  static WideLanes set(float value) { return {_mm512_set1_ps(value)}; }
  static WideLanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static WideLanes load_bf16(const std::uint16_t* p) {
    return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  void store(float* p) const { _mm512_storeu_ps(p, all); }

  /// Loads eight floats into both halves.
  static WideLanes both(const float* p) {
    const __m256d eight = _mm256_castps_pd(_mm256_loadu_ps(p));
    return {_mm512_castpd_ps(_mm512_broadcast_f64x4(eight))};
  }
  static WideLanes joined(Lanes a, Lanes b) {
    return {_mm512_castpd_ps(
        _mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(a.all)), _mm256_castps_pd(b.all), 1))};
  }
  static WideLanes joined_bf16(const std::uint16_t* a, const std::uint16_t* b) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a));
    const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
    return widened(_mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1));
  }

 private:
  static WideLanes widened(__m256i bf16) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16))};
  }
};

inline WideLanes operator+(WideLanes a, WideLanes b) {
  return {_mm512_add_ps(a.all, b.all)};
}
inline WideLanes operator-(WideLanes a, WideLanes b) {
  return {_mm512_sub_ps(a.all, b.all)};
}
inline WideLanes operator*(WideLanes a, WideLanes b) {
  return {_mm512_mul_ps(a.all, b.all)};
}
inline WideLanes operator/(WideLanes a, WideLanes b) {
  return {_mm512_div_ps(a.all, b.all)};
}
inline WideLanes fma(WideLanes a, WideLanes b, WideLanes c) {
  return {_mm512_fmadd_ps(a.all, b.all, c.all)};
}
inline WideLanes min(WideLanes a, WideLanes b) {
  return {_mm512_min_ps(a.all, b.all)};
}
inline WideLanes max(WideLanes a, WideLanes b) {
  return {_mm512_max_ps(a.all, b.all)};
}
inline WideLanes scale_by_power(WideLanes x, WideLanes shifted) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted.all), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.all), exponent))};
}

/// to[j] = sum() of Lanes j; each element of v has kLanesOfWide of them.
template <int kCount>
inline void store_sums(const WideLanes (&v)[kCount], float* to) {
  if constexpr (kCount == 4) {  // eight sums at once, each in the order of sum()
    __m512 fours[2];
    for (int i = 0; i < 2; ++i) {
      const __m512 a = v[2 * i].all;
      const __m512 b = v[2 * i + 1].all;
      fours[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
    const __m512 twos = _mm512_add_ps(_mm512_shuffle_ps(fours[0], fours[1], 0x44),
                                      _mm512_shuffle_ps(fours[0], fours[1], 0xee));
    const __m512 ones =
        _mm512_add_ps(_mm512_shuffle_ps(twos, twos, 0x88), _mm512_shuffle_ps(twos, twos, 0xdd));
    const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm256_storeu_ps(to, _mm512_castps512_ps256(_mm512_permutexvar_ps(in_order, ones)));
  } else {
    for (int i = 0; i < kCount; ++i) {
      to[2 * i] = sum(Lanes{_mm512_castps512_ps256(v[i].all)});
      const __m512d all = _mm512_castps_pd(v[i].all);
      to[2 * i + 1] = sum(Lanes{_mm256_castpd_ps(_mm512_extractf64x4_pd(all, 1))});
    }
  }
}

#else

inline constexpr std::size_t kWideLanes = 8;
inline constexpr int kLanesOfWide = 1;

struct WideLanes : Lanes {
  WideLanes() = default;
  WideLanes(Lanes lanes) : Lanes(lanes) {}  // NOLINT(google-explicit-constructor): the same type

  static WideLanes set(float value) { return Lanes::set(value); }
  static WideLanes load(const float* p) { return Lanes::load(p); }
  static WideLanes load_bf16(const std::uint16_t* p) { return Lanes::load_bf16(p); }
  static WideLanes both(const float* p) { return Lanes::load(p); }
  static WideLanes joined(Lanes a, Lanes) { return a; }
  static WideLanes joined_bf16(const std::uint16_t* a, const std::uint16_t*) { return Lanes::load_bf16(a); }
};

template <int kCount>
inline void store_sums(const WideLanes (&v)[kCount], float* to) {
  for (int i = 0; i < kCount; ++i) to[i] = sum(v[i]);
}

#endif

/// Calls function(std::integral_constant<std::size_t, i>) for i in [0, kCount), fully unrolled, so that
/// arrays of vectors indexed by i stay in registers.
template <std::size_t kCount, class Function>
[[gnu::always_inline]] inline void for_each_index(Function function) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) __attribute__((always_inline)) {
    (function(std::integral_constant<std::size_t, kIndex>()), ...);
  }
  (std::make_index_sequence<kCount>());
}

}  // namespace
}  // namespace reprise::gpu
