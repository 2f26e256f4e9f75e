// The widest vectors of f32 and int32 of an x86-64 source's instruction set: kWide is 16 with AVX-512, else
// 8. For GEMMs whose lanes are outputs (panel_product.h, int8_panels.h).

#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace reprise::gpu {
namespace {

inline __m128i load_16(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
inline __m256i load_32(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline void store_32(__m256i v, void* p) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), v);
}

/// Transposes an 8 x 8 matrix of 32-bit elements.
inline void transpose_8(__m256i (&v)[8]) {
  __m256i t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    v[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // Half p of v[4 g + c] holds column 4 p + c of rows 4 g ... 4 g + 3.
  for (int c = 0; c < 4; ++c) {
    t[c] = _mm256_permute2x128_si256(v[c], v[c + 4], 0x20);
    t[c + 4] = _mm256_permute2x128_si256(v[c], v[c + 4], 0x31);
  }
  for (int i = 0; i < 8; ++i) v[i] = t[i];
}

#if defined(__AVX512F__)

inline constexpr std::size_t kWide = 16;

struct Wide {
  __m512 all;

  static Wide set(float value) { return {_mm512_set1_ps(value)}; }
  static Wide load(const float* p) { return {_mm512_loadu_ps(p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, all); }
};
inline Wide operator+(Wide a, Wide b) {
  return {_mm512_add_ps(a.all, b.all)};
}
inline Wide fma(Wide a, Wide b, Wide c) {
  return {_mm512_fmadd_ps(a.all, b.all, c.all)};
}

using WideBits = __m512i;  // kWide 32-bit elements

inline WideBits load_bits(const void* p) {
  return _mm512_loadu_si512(p);
}
inline void store_bits(WideBits bits, void* p) {
  _mm512_storeu_si512(p, bits);
}

/// Transposes a 16 x 16 matrix of 32-bit elements.
inline void transpose(WideBits (&v)[kWide]) {
  WideBits t[kWide];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // Quarter p of v[4 g + c] holds column 4 p + c of rows 4 g ... 4 g + 3.
  for (int c = 0; c < 4; ++c) {
    const WideBits even_low = _mm512_shuffle_i32x4(v[c], v[c + 4], 0x88);
    const WideBits odd_low = _mm512_shuffle_i32x4(v[c], v[c + 4], 0xdd);
    const WideBits even_high = _mm512_shuffle_i32x4(v[c + 8], v[c + 12], 0x88);
    const WideBits odd_high = _mm512_shuffle_i32x4(v[c + 8], v[c + 12], 0xdd);
    t[c] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    t[c + 4] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    t[c + 8] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    t[c + 12] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
  for (std::size_t i = 0; i < kWide; ++i) v[i] = t[i];
}

inline WideBits upper_halves(WideBits v) {
  return _mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(0xffff0000U)));
}
inline WideBits lower_halves_up(WideBits v) {
  return _mm512_slli_epi32(v, 16);
}
inline Wide as_floats(WideBits v) {
  return {_mm512_castsi512_ps(v)};
}
inline WideBits widen_f16(const std::uint16_t* p) {
  return _mm512_castps_si512(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}

#else

inline constexpr std::size_t kWide = 8;

struct Wide {
  __m256 all;

  static Wide set(float value) { return {_mm256_set1_ps(value)}; }
  static Wide load(const float* p) { return {_mm256_loadu_ps(p)}; }
  void store(float* p) const { _mm256_storeu_ps(p, all); }
};
inline Wide operator+(Wide a, Wide b) {
  return {_mm256_add_ps(a.all, b.all)};
}
inline Wide fma(Wide a, Wide b, Wide c) {
  return {_mm256_fmadd_ps(a.all, b.all, c.all)};
}

using WideBits = __m256i;  // kWide 32-bit elements

inline WideBits load_bits(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline void store_bits(WideBits bits, void* p) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), bits);
}

inline void transpose(WideBits (&v)[kWide]) {
  transpose_8(v);
}

inline WideBits upper_halves(WideBits v) {
  return _mm256_and_si256(v, _mm256_set1_epi32(static_cast<int>(0xffff0000U)));
}
inline WideBits lower_halves_up(WideBits v) {
  return _mm256_slli_epi32(v, 16);
}
inline Wide as_floats(WideBits v) {
  return {_mm256_castsi256_ps(v)};
}
inline WideBits widen_f16(const std::uint16_t* p) {
  return _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

#endif

/// Prefetches the cache line `ahead` bytes from here, which may be past the end of the weight. Always
/// inlined: g++ drops calls of functions that only prefetch.
[[gnu::always_inline]] inline void prefetch(const void* here, std::size_t ahead) {
  _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(here) + ahead), _MM_HINT_T1);
}

inline WideBits word_of(const void* p) {
  std::int32_t word;
  std::memcpy(&word, p, sizeof(word));
#if defined(__AVX512F__)
  return _mm512_set1_epi32(word);
#else
  return _mm256_set1_epi32(word);
#endif
}

/// Loads data that was just stored in 256-bit halves; one wide load would stall, as store forwarding cannot
/// serve it.
inline WideBits load_halves(const void* p) {
#if defined(__AVX512F__)
  return _mm512_inserti64x4(_mm512_castsi256_si512(load_32(p)),
                            load_32(static_cast<const std::byte*>(p) + 32), 1);
#else
  return load_32(p);
#endif
}

/// Transposes kWide words of kWide rows: part(r) points to those of row r; lines[w] gets word w of every row.
template <class Part>
inline void transpose_words(Part part, std::uint32_t (*lines)[kWide]) {
  WideBits v[kWide];
  for (std::size_t r = 0; r < kWide; ++r) v[r] = load_halves(part(r));
  transpose(v);
  for (std::size_t line = 0; line < kWide; ++line) store_bits(v[line], lines[line]);
}

#if defined(__AVX512F__)
inline WideBits add_32(WideBits a, WideBits b) {
  return _mm512_add_epi32(a, b);
}
inline WideBits add_16(WideBits a, WideBits b) {
  return _mm512_add_epi16(a, b);
}
inline WideBits multiply_32(WideBits a, WideBits b) {
  return _mm512_mullo_epi32(a, b);
}
inline WideBits pairs_of_16(WideBits a, WideBits b) {
  return _mm512_madd_epi16(a, b);
}
inline WideBits pairs_of_8(WideBits bytes, WideBits numbers) {
  return _mm512_maddubs_epi16(bytes, numbers);
}
inline WideBits signed_pairs_of_8(WideBits w, WideBits x) {
  const WideBits with_sign = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
  return _mm512_maddubs_epi16(_mm512_abs_epi8(w), with_sign);
}
inline WideBits ones_of_16() {
  return _mm512_set1_epi16(1);
}
inline Wide to_floats(WideBits a) {
  return {_mm512_cvtepi32_ps(a)};
}
inline Wide operator*(Wide a, Wide b) {
  return {_mm512_mul_ps(a.all, b.all)};
}
/// Adds the four byte products of each lane to sum. Requires kHasDotOfBytes.
inline WideBits dot_of_bytes([[maybe_unused]] WideBits sum, [[maybe_unused]] WideBits w,
                             [[maybe_unused]] WideBits x) {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(sum, w, x);
#else
  return sum;
#endif
}
#else
inline WideBits add_32(WideBits a, WideBits b) {
  return _mm256_add_epi32(a, b);
}
inline WideBits add_16(WideBits a, WideBits b) {
  return _mm256_add_epi16(a, b);
}
inline WideBits multiply_32(WideBits a, WideBits b) {
  return _mm256_mullo_epi32(a, b);
}
inline WideBits pairs_of_16(WideBits a, WideBits b) {
  return _mm256_madd_epi16(a, b);
}
inline WideBits pairs_of_8(WideBits bytes, WideBits numbers) {
  return _mm256_maddubs_epi16(bytes, numbers);
}
inline WideBits signed_pairs_of_8(WideBits w, WideBits x) {
  return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}
inline WideBits ones_of_16() {
  return _mm256_set1_epi16(1);
}
inline Wide to_floats(WideBits a) {
  return {_mm256_cvtepi32_ps(a)};
}
inline Wide operator*(Wide a, Wide b) {
  return {_mm256_mul_ps(a.all, b.all)};
}
/// Adds the four byte products of each lane to sum. Requires kHasDotOfBytes.
inline WideBits dot_of_bytes([[maybe_unused]] WideBits sum, [[maybe_unused]] WideBits w,
                             [[maybe_unused]] WideBits x) {
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, w, x);
#else
  return sum;
#endif
}
#endif

}  // namespace
}  // namespace reprise::gpu
