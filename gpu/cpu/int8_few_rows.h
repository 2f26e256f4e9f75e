// The fast product of quantised formats for few rows of x, on AVX2's registers, with the bits of its definition
// (int8_product.h): the weight's way from memory and out of its bits counts, so each row of the weight is unpacked once
// and multiplied along k; eight outputs meet for the float part. Included by kernel sources for x86-64, with internal
// linkage.
//
// Whole numbers may be added in any order. Those of int16 do not saturate for the reasons that int8_panels.h gives.

#pragma once

#include <algorithm>
#include <type_traits>

#include "gpu/cpu/int8_bytes.h"
#include "gpu/cpu/int8_product.h"
#include "gpu/cpu/x86_vectors.h"

namespace reprise::gpu {
namespace {

inline constexpr std::size_t kByteLanes = 8;  // outputs at once
inline constexpr int kFewByteRows = 8;        // at most so many are few

/// sum + pairs of products of int16.
inline __m256i add_pairs_of_16(__m256i sum, __m256i a, __m256i b) {
#if defined(__AVX512VNNI__)
  return _mm256_dpwssd_epi32(sum, a, b);
#elif defined(__AVXVNNI__)
  return _mm256_dpwssd_avx_epi32(sum, a, b);
#else
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
#endif
}

/// Sums of four products each of 32 bytes of w and 32 numbers of x: eight whole numbers.
template <class Quant>
inline __m256i dots_of_32(__m256i w, __m256i x) {
#if defined(__AVX512VNNI__)
  return _mm256_dpbusd_epi32(_mm256_setzero_si256(), w, x);
#elif defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), w, x);
#else
  const __m256i pairs = Bytes<Quant>::kSigned
                            ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                            : _mm256_maddubs_epi16(w, x);
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#endif
}

/// The sums of the elements of each of eight vectors.
inline __m256i sums_of_eight(const __m256i (&v)[kByteLanes]) {
  const __m256i first = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
  const __m256i second = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
  return _mm256_add_epi32(_mm256_permute2x128_si256(first, second, 0x20),
                          _mm256_permute2x128_si256(first, second, 0x31));
}

/// The groups' scales of a block of 256 as int16: one for each sixteen elements.
template <class Quant>
inline __m256i scales_of_sixteens(const BytesOfRow& w) {
  const __m256i low = load_32(w.words);
  if constexpr (Quant::kGroup == 32) {
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(low, 16));
  } else {
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(low, load_32(w.words + 8)), 0xd8);
  }
}

/// Sixteen int16, the even ones first.
inline __m256i halves_of_scales(__m256i v) {
  const __m256i even_first = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,  //
                                              0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, even_first), 0xd8);
}

/// One block of 256 of one output for kRows rows of x: whole numbers that add up to I and, where there are offsets, S.
template <class Quant, int kRows>
inline void add_large_block(const ActivationsOf<Quant>& x, std::size_t k, const BytesOfRow& w,
                            __m256i (&products)[kRows], [[maybe_unused]] __m256i (&offsets)[kRows]) {
  // Sums of two products fit int16 if bytes are small, or signed: no number of a weight in blocks of 256 is -128.
  constexpr bool kAsSigned = Bytes<Quant>::kSigned || Bytes<Quant>::kLargest > 63;
  const __m256i by_sixteen = scales_of_sixteens<Quant>(w);
  // The scales of even sixteens in the low half, those of odd ones in the high half.
  const __m256i by_half = halves_of_scales(by_sixteen);
  for (int i = 0; i < kRows; ++i) {
    const __m256i sums = load_32(x.sums(static_cast<std::size_t>(i)) + k / 16);
    products[i] = _mm256_setzero_si256();
    if constexpr (!kAsSigned && Bytes<Quant>::kZero != 0) {
      products[i] =
          _mm256_mullo_epi32(_mm256_madd_epi16(sums, by_sixteen), _mm256_set1_epi32(-Bytes<Quant>::kZero));
    }
    if constexpr (Quant::kHasOffsets) {
      offsets[i] = _mm256_madd_epi16(sums, load_32(w.words + 256 / Quant::kGroup));
    }
  }
  for (std::size_t part = 0; part < 8; ++part) {
    __m256i bytes = load_32(w.q + 32 * part);
    if constexpr (kAsSigned && !Bytes<Quant>::kSigned) {
      bytes = _mm256_sub_epi8(bytes, _mm256_set1_epi8(static_cast<char>(Bytes<Quant>::kZero)));
    }
    const auto byte = static_cast<int>(2 * part);
    const __m256i scale =
        _mm256_shuffle_epi8(by_half, _mm256_set1_epi16(static_cast<short>(byte | (byte + 1) << 8)));
    for (int i = 0; i < kRows; ++i) {
      const __m256i numbers = load_32(x.q(static_cast<std::size_t>(i)) + k + 32 * part);
      const __m256i pairs =
          kAsSigned ? _mm256_maddubs_epi16(_mm256_abs_epi8(bytes), _mm256_sign_epi8(numbers, bytes))
                    : _mm256_maddubs_epi16(bytes, numbers);
      products[i] = add_pairs_of_16(products[i], pairs, scale);
    }
  }
}

/// 256 elements of k of eight outputs, blocks of 256.
template <class Quant, int kRows>
inline void add_large_blocks(const ActivationsOf<Quant>& x, std::size_t k, const BytesOfRow (&w)[kByteLanes],
                             __m256 (&totals)[kRows]) {
  __m256i products[kRows][kByteLanes];
  [[maybe_unused]] __m256i offsets[kRows][kByteLanes];
  alignas(32) float scales[kByteLanes];
  alignas(32) float offset_scales[kByteLanes];
  for (std::size_t n = 0; n < kByteLanes; ++n) {
    __m256i of_output[kRows];
    __m256i offsets_of_output[kRows];
    add_large_block<Quant, kRows>(x, k, w[n], of_output, offsets_of_output);
    for (int i = 0; i < kRows; ++i) {
      products[i][n] = of_output[i];
      if constexpr (Quant::kHasOffsets) offsets[i][n] = offsets_of_output[i];
    }
    scales[n] = w[n].scale;
    offset_scales[n] = w[n].offset;
  }
  for (int i = 0; i < kRows; ++i) {
    __m256 t = _mm256_mul_ps(_mm256_load_ps(scales), _mm256_cvtepi32_ps(sums_of_eight(products[i])));
    if constexpr (Quant::kHasOffsets) {
      t = _mm256_fmadd_ps(_mm256_load_ps(offset_scales), _mm256_cvtepi32_ps(sums_of_eight(offsets[i])), t);
    }
    totals[i] = _mm256_fmadd_ps(_mm256_set1_ps(x.scales(static_cast<std::size_t>(i))[k / 256]), t, totals[i]);
  }
}

/// Eight blocks of 32 of a row of the weight, as bytes.
template <class Quant>
struct EightBlocks {
  using Block = typename Quant::Block;
#if defined(__AVX512VNNI__)
  __m512i pairs[4];

  explicit EightBlocks(const Block* blocks) {
    for (int p = 0; p < 4; ++p) {
      const Block& first = blocks[2 * p];
      const Block& second = blocks[2 * p + 1];
      if constexpr (std::is_same_v<Quant, Q8_0>) {  // as they are stored: both are moved at once
        const __m512i both =
            _mm512_inserti64x4(_mm512_castsi256_si512(load_32(first.qs)), load_32(second.qs), 1);
        pairs[p] = _mm512_xor_si512(both, _mm512_set1_epi8(static_cast<char>(Bytes<Quant>::kZero)));
      } else {
        pairs[p] = _mm512_inserti64x4(_mm512_castsi256_si512(Bytes<Quant>::unpack(first)),
                                      Bytes<Quant>::unpack(second), 1);
      }
    }
  }

  /// The sums of products of each block with 32 of the 256 numbers of x.
  __m256i times(const std::int8_t* x) const {
    __m512i d[4];
    for (int p = 0; p < 4; ++p) {
      d[p] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), pairs[p], _mm512_loadu_si512(x + 64 * p));
    }
    const auto fold = [](__m512i a, __m512i b) {
      return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    };
    const __m512i first = fold(d[0], d[1]);
    const __m512i second = fold(d[2], d[3]);
    const __m512i quarters =
        _mm512_add_epi32(_mm512_unpacklo_epi64(first, second), _mm512_unpackhi_epi64(first, second));
    // Quarters 0 and 1 have the halves of blocks 0, 2, 4, 6, quarters 2 and 3 those of 1, 3, 5, 7.
    const __m512i whole = _mm512_add_epi32(quarters, _mm512_shuffle_i32x4(quarters, quarters, 0xb1));
    const __m512i in_order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 0, 8, 1, 9, 2, 10, 3, 11);
    return _mm512_castsi512_si256(_mm512_permutexvar_epi32(in_order, whole));
  }
#else
  __m256i blocks[8];

  explicit EightBlocks(const Block* from) {
    for (int b = 0; b < 8; ++b) blocks[b] = Bytes<Quant>::unpack(from[b]);
  }

  __m256i times(const std::int8_t* x) const {
    __m256i dots[8];
    for (int b = 0; b < 8; ++b) dots[b] = dots_of_32<Quant>(blocks[b], load_32(x + 32 * b));
    return sums_of_eight(dots);
  }
#endif
};

/// What the row of x adds to products of eight blocks of 32, whatever the weight.
template <class Quant>
struct SumsOfEight {
  __m256i start{};  // for the bytes being larger than the numbers by kZero
  __m256 sums{};

  SumsOfEight() = default;
  explicit SumsOfEight(const std::int16_t* of_blocks) {
    const __m256i whole = _mm256_cvtepi16_epi32(load_16(of_blocks));
    start = _mm256_mullo_epi32(whole, _mm256_set1_epi32(-Bytes<Quant>::kZero));
    sums = _mm256_cvtepi32_ps(whole);
  }
};

/// Eight blocks of 32 of each of eight outputs: w[n] has output n's. In vectors along a row: its blocks.
template <class Quant, int kRows>
inline void add_eight_blocks(const ActivationsOf<Quant>& x, std::size_t k,
                             const typename Quant::Block* const (&w)[kByteLanes], __m256 (&totals)[kRows]) {
  __m256i products[kRows][kByteLanes];  // of an output, its blocks; then of a block, its outputs
  SumsOfEight<Quant> sums[kRows];
  for (int i = 0; i < kRows; ++i) {
    sums[i] = SumsOfEight<Quant>(x.sums(static_cast<std::size_t>(i)) + k / 32);
  }
  for (std::size_t n = 0; n < kByteLanes; ++n) {
    const EightBlocks<Quant> blocks(w[n]);
    const ScalesOfEight<Quant> scales(w[n]);
    for (int i = 0; i < kRows; ++i) {
      const auto row = static_cast<std::size_t>(i);
      __m256i whole = blocks.times(x.q(row) + k);
      if constexpr (Bytes<Quant>::kZero != 0) whole = _mm256_add_epi32(whole, sums[i].start);
      __m256 t = _mm256_mul_ps(scales.scales, _mm256_cvtepi32_ps(whole));
      if constexpr (Quant::kHasOffsets) t = _mm256_fmadd_ps(scales.offsets, sums[i].sums, t);
      products[i][n] = _mm256_castps_si256(t);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    transpose_8(products[i]);
    const float* x_scales = x.scales(static_cast<std::size_t>(i)) + k / 32;
    for (std::size_t b = 0; b < 8; ++b) {
      totals[i] =
          _mm256_fmadd_ps(_mm256_set1_ps(x_scales[b]), _mm256_castsi256_ps(products[i][b]), totals[i]);
    }
  }
}

/// The rest of a row, fewer than eight blocks of 32, of eight outputs: one block after another.
template <class Quant, int kRows>
inline void add_last_blocks(const ActivationsOf<Quant>& x, std::size_t k, std::size_t blocks,
                            const typename Quant::Block* const (&w)[kByteLanes], __m256 (&totals)[kRows]) {
  for (std::size_t b = 0; b < blocks; ++b, k += 32) {
    alignas(32) float scales[kByteLanes];
    [[maybe_unused]] alignas(32) float offsets[kByteLanes];
    __m256i bytes[kByteLanes];
    for (std::size_t n = 0; n < kByteLanes; ++n) {
      const typename Quant::Block& block = w[n][b];
      bytes[n] = Bytes<Quant>::unpack(block);
      scales[n] = Quant::scale(block);
      if constexpr (Quant::kHasOffsets) offsets[n] = Quant::offset(block);
    }
    for (int i = 0; i < kRows; ++i) {
      const auto row = static_cast<std::size_t>(i);
      const int sum = x.sums(row)[k / 32];
      __m256i dots[kByteLanes];
      for (std::size_t n = 0; n < kByteLanes; ++n) {
        dots[n] = dots_of_32<Quant>(bytes[n], load_32(x.q(row) + k));
      }
      const __m256i whole =
          _mm256_add_epi32(sums_of_eight(dots), _mm256_set1_epi32(-Bytes<Quant>::kZero * sum));
      __m256 t = _mm256_mul_ps(_mm256_load_ps(scales), _mm256_cvtepi32_ps(whole));
      if constexpr (Quant::kHasOffsets) {
        t = _mm256_fmadd_ps(_mm256_load_ps(offsets), _mm256_set1_ps(static_cast<float>(sum)), t);
      }
      totals[i] = _mm256_fmadd_ps(_mm256_set1_ps(x.scales(row)[k / 32]), t, totals[i]);
    }
  }
}

template <class Quant, int kRows>
void multiply_few_by_bytes(const ActivationsOf<Quant>& x, const WeightView& w, float* y, std::size_t y_stride,
                           std::size_t n_begin, std::size_t n_end) {
  using Block = typename Quant::Block;
  constexpr std::size_t kElements = Quant::kFormat.block_size;
  const std::size_t next = kByteLanes * w.row_bytes();  // to the same place of the outputs that come next
  for (std::size_t n = n_begin; n < n_end; n += kByteLanes) {
    const std::size_t outputs = std::min(kByteLanes, n_end - n);
    __m256 totals[kRows];
    for (__m256& total : totals) total = _mm256_setzero_ps();
    for (std::size_t k = 0; k < w.columns; k += 256) {
      const std::size_t blocks = std::min<std::size_t>(256, w.columns - k) / kElements;
      const Block* rows[kByteLanes];
      for (std::size_t r = 0; r < kByteLanes; ++r) {
        const std::byte* row = w.row(n + std::min(r, outputs - 1)) + k / kElements * sizeof(Block);
        for (std::size_t line = 0; line < blocks * sizeof(Block); line += 64) ask_for(row, next + line);
        rows[r] = reinterpret_cast<const Block*>(row);
      }
      if constexpr (kElements == 256) {
        BytesOfRow unpacked[kByteLanes];
        for (std::size_t r = 0; r < kByteLanes; ++r) Bytes<Quant>::unpack(*rows[r], unpacked[r]);
        add_large_blocks<Quant, kRows>(x, k, unpacked, totals);
      } else if (blocks == 8) {
        add_eight_blocks<Quant, kRows>(x, k, rows, totals);
      } else {
        add_last_blocks<Quant, kRows>(x, k, blocks, rows, totals);
      }
    }
    for (int i = 0; i < kRows; ++i) {
      float* to = y + static_cast<std::size_t>(i) * y_stride + n;
      if (outputs == kByteLanes) {
        _mm256_storeu_ps(to, totals[i]);
      } else {
        float all[kByteLanes];
        _mm256_storeu_ps(all, totals[i]);
        std::memcpy(to, all, outputs * sizeof(float));
      }
    }
  }
}

}  // namespace
}  // namespace reprise::gpu
