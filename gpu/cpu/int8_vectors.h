// Arithmetic of whole numbers on the widest vectors (x86_vectors.h), for panels of bytes (int8_panels.h). Included by
// kernel sources for x86-64, with internal linkage.

#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gpu/cpu/int8_bytes.h"
#include "gpu/cpu/x86_vectors.h"

namespace reprise::gpu {
namespace {

/// The four bytes at p in every lane.
inline WideBits word_of(const void* p) {
  std::int32_t word;
  std::memcpy(&word, p, sizeof(word));
#if defined(__AVX512F__)
  return _mm512_set1_epi32(word);
#else
  return _mm256_set1_epi32(word);
#endif
}

/// What was stored in halves of 256 bits a moment ago: whole, it would have to wait until both are in the cache.
inline WideBits load_halves(const void* p) {
#if defined(__AVX512F__)
  return _mm512_inserti64x4(_mm512_castsi256_si512(load_32(p)),
                            load_32(static_cast<const std::byte*>(p) + 32), 1);
#else
  return load_32(p);
#endif
}

/// Sixteen words, or eight, of each of kWide rows: part(r) points to row r's. lines[w] has word w of every row.
template <class Part>
inline void turn_words(Part part, std::uint32_t (*lines)[kWide]) {
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
/// sum + the four products in each lane; only where kHasDotOfBytes.
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
/// sum + the four products in each lane; only where kHasDotOfBytes.
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
