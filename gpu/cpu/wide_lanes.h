// As many floats as a register holds, for arithmetic in which lanes never meet, so that their number does not matter to
// the bits: sixteen with AVX-512, else the eight of Lanes. Two Lanes that are computed alike may stand side by side in it.
// Included by the kernel sources, with internal linkage, like lanes.h.

#pragma once

#include "gpu/cpu/lanes.h"

namespace reprise::gpu {
namespace {

#if defined(__AVX512F__) && !defined(REPRISE_LANES_PLAIN)

inline constexpr std::size_t kWideLanes = 16;
inline constexpr int kBeside = 2;  // Lanes that stand in it

struct WideLanes {
  __m512 all;

  static WideLanes set(float value) { return {_mm512_set1_ps(value)}; }
  static WideLanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static WideLanes load_bf16(const std::uint16_t* p) {
    return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  void store(float* p) const { _mm512_storeu_ps(p, all); }

  /// The same eight numbers on both sides.
  static WideLanes both(const float* p) {
    const __m256d eight = _mm256_castps_pd(_mm256_loadu_ps(p));
    return {_mm512_castpd_ps(_mm512_broadcast_f64x4(eight))};
  }
  static WideLanes beside(Lanes a, Lanes b) {
    return {_mm512_castpd_ps(
        _mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(a.all)), _mm256_castps_pd(b.all), 1))};
  }
  static WideLanes beside_bf16(const std::uint16_t* a, const std::uint16_t* b) {
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

/// to[j] = sum() of the Lanes j, of which v has kBeside each.
template <int kCount>
inline void store_sums(const WideLanes (&v)[kCount], float* to) {
  if constexpr (kCount == 4) {  // eight of them at once, each added up as sum() does
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
inline constexpr int kBeside = 1;

struct WideLanes : Lanes {
  WideLanes() = default;
  WideLanes(Lanes lanes) : Lanes(lanes) {}  // NOLINT(google-explicit-constructor): they are the same

  static WideLanes set(float value) { return Lanes::set(value); }
  static WideLanes load(const float* p) { return Lanes::load(p); }
  static WideLanes load_bf16(const std::uint16_t* p) { return Lanes::load_bf16(p); }
  static WideLanes both(const float* p) { return Lanes::load(p); }
  static WideLanes beside(Lanes a, Lanes) { return a; }
  static WideLanes beside_bf16(const std::uint16_t* a, const std::uint16_t*) { return Lanes::load_bf16(a); }
};

template <int kCount>
inline void store_sums(const WideLanes (&v)[kCount], float* to) {
  for (int i = 0; i < kCount; ++i) to[i] = sum(v[i]);
}

#endif

}  // namespace
}  // namespace reprise::gpu
