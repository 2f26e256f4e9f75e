// Eight floats at a time: the only code of the CPU kernels that knows an instruction set.
//
// No include guard against other namespaces is needed: each kernel source includes this once, inside which
// everything has internal linkage, so that code compiled for one instruction set is never linked into
// another. REPRISE_LANES_PLAIN chooses the portable version.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

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
    return static_cast<std::uint16_t>((bits >> 16) | 0x40U);  // NaN stays NaN
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

// The tile of a product whose sums and operands fit the registers.
inline constexpr int kTileRows = 4;
inline constexpr int kTileOutputs = 2;

struct Lanes {
  float32x4_t low, high;

  static Lanes set(float value) { return {vdupq_n_f32(value), vdupq_n_f32(value)}; }
  static Lanes load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
  static Lanes load_bf16(const std::uint16_t* p) {
    const uint16x8_t raw = vld1q_u16(p);
    const uint16x8_t zero = vdupq_n_u16(0);  // interleaved: shifts have half as many pipes on a Neoverse N1
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

/// x * 2^n for n given as the float n + 1.5 * 2^23.
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

/// x * 2^n for n given as the float n + 1.5 * 2^23.
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

/// The first `count` < 8 elements, then zeros.
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

}  // namespace
}  // namespace reprise::gpu
