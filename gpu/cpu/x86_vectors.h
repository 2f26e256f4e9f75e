// The widest vectors of floats that an x86-64 source is compiled for: sixteen with AVX-512, else eight. For products
// whose lanes are outputs, not elements of k (panel_product.h). Included by kernel sources, with internal linkage.
//
// A format's Columns read kWide rows of a weight and turn them, so that a vector has one k of each row.

#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace reprise::gpu {
namespace {

/// Rows become columns: afterwards v[j] has number j, of 32 bits, of every row.
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
  // Now half p of v[4 g + c] has column 4 p + c of rows 4 g ... 4 g + 3.
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

using WideBits = __m512i;  // kWide numbers of 32 bits

inline WideBits load_bits(const void* p) {
  return _mm512_loadu_si512(p);
}
inline void store_bits(WideBits bits, void* p) {
  _mm512_storeu_si512(p, bits);
}

/// As transpose_8.
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
  // Now part p of v[4 g + c] has column 4 p + c of rows 4 g ... 4 g + 3.
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

using WideBits = __m256i;  // kWide numbers of 32 bits

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

/// Asks for a line that is needed a block later, `ahead` bytes from here; at a weight's end there is none, which is
/// no harm. Inlined: g++ leaves out calls of functions that do nothing but ask.
[[gnu::always_inline]] inline void ask_for(const void* here, std::size_t ahead) {
  _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(here) + ahead), _MM_HINT_T1);
}

/// How a format's rows become columns: turn() reads kStep elements of kWide rows and gives them to take(k, column),
/// k being 0 to kStep - 1 upwards and column the widened element k of each row.
struct F32Columns {
  using Element = float;
  static constexpr std::size_t kStep = kWide;

  template <class Take>
  static void turn(const float* const (&rows)[kWide], Take take) {
    WideBits v[kWide];
    for (std::size_t r = 0; r < kWide; ++r) v[r] = load_bits(rows[r]);
    transpose(v);
    for (std::size_t k = 0; k < kWide; ++k) take(k, as_floats(v[k]));
  }
};

struct F16Columns {
  using Element = std::uint16_t;
  static constexpr std::size_t kStep = kWide;

  template <class Take>
  static void turn(const std::uint16_t* const (&rows)[kWide], Take take) {
    WideBits v[kWide];
    for (std::size_t r = 0; r < kWide; ++r) v[r] = widen_f16(rows[r]);
    transpose(v);
    for (std::size_t k = 0; k < kWide; ++k) take(k, as_floats(v[k]));
  }
};

/// Two elements are turned as one number, and widened afterwards.
struct BF16Columns {
  using Element = std::uint16_t;
  static constexpr std::size_t kStep = 2 * kWide;

  template <class Take>
  static void turn(const std::uint16_t* const (&rows)[kWide], Take take) {
    WideBits v[kWide];
    for (std::size_t r = 0; r < kWide; ++r) v[r] = load_bits(rows[r]);
    transpose(v);
    for (std::size_t k = 0; k < kWide; ++k) {
      take(2 * k, as_floats(lower_halves_up(v[k])));
      take(2 * k + 1, as_floats(upper_halves(v[k])));
    }
  }
};

}  // namespace
}  // namespace reprise::gpu
