// The fast GEMM of quantized formats on x86-64, bitwise identical to the definition in int8_product.h.
//
// More than 8 rows: the weight is unpacked into panels whose lanes are outputs, 256 elements of k at a time,
// and multiplied by four elements of a row of x at once. The panels of a group of outputs stay in L2 while
// all rows pass. Up to 8 rows: reading and unpacking the weight dominates, so each row of the weight is
// unpacked once and multiplied along k in AVX2 registers; the float part combines eight outputs.
//
// The byte multiplication depends on the instruction set of the source:
//   VNNI    VPDPBUSD: unsigned x signed into int32, without saturation
//   else    VPMADDUBSW adds pairs of unsigned x signed in int16, with saturation. |x| <= 127, so a pair with
//           w <= 63 is at most 2 * 63 * 127 < 2^15, and kRun pairs are added that stay below it. Eight-bit
//           integers: |w| <= 128 times x with w's sign, at most 2 * 128 * 127 < 2^15.
// Bytes have kZero added; sums start at -kZero times the sum of x to compensate.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include "gpu/cpu/formats/formats.h"
#include "gpu/cpu/formats/int8_bytes.h"
#include "gpu/cpu/formats/int8_product.h"
#include "gpu/cpu/x86/x86_vectors.h"

namespace reprise::gpu {
namespace {

inline constexpr std::size_t kByteLanes = 8;  // outputs at once
inline constexpr int kFewByteRows = 8;        // max rows without panels

inline __m256i add_pairs_of_16(__m256i sum, __m256i a, __m256i b) {
#if defined(__AVX512VNNI__)
  return _mm256_dpwssd_epi32(sum, a, b);
#elif defined(__AVXVNNI__)
  return _mm256_dpwssd_avx_epi32(sum, a, b);
#else
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
#endif
}

/// Multiplies 32 bytes of w and x and adds them in fours: eight int32.
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

inline __m256i sums_of_eight(const __m256i (&v)[kByteLanes]) {
  const __m256i first = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
  const __m256i second = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
  return _mm256_add_epi32(_mm256_permute2x128_si256(first, second, 0x20),
                          _mm256_permute2x128_si256(first, second, 0x31));
}

/// Returns the group scales of a block of 256 as int16, one for each sixteen elements.
template <class Quant>
inline __m256i scales_of_sixteens(const BytesOfRow& w) {
  const __m256i low = load_32(w.words);
  if constexpr (Quant::kGroup == 32) {
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(low, 16));
  } else {
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(low, load_32(w.words + 8)), 0xd8);
  }
}

/// Permutes sixteen int16: the even ones first, then the odd ones.
inline __m256i halves_of_scales(__m256i v) {
  const __m256i even_first = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,  //
                                              0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, even_first), 0xd8);
}

/// One block of 256 of one output for kRows rows of x: partial sums whose totals are I and, with offsets, S.
template <class Quant, int kRows>
inline void add_large_block(const ActivationsOf<Quant>& x, std::size_t k, const BytesOfRow& w,
                            __m256i (&products)[kRows], [[maybe_unused]] __m256i (&offsets)[kRows]) {
  // Sums of two products fit int16 if the bytes are small, or signed: no weight in blocks of 256 is -128.
  constexpr bool kAsSigned = Bytes<Quant>::kSigned || Bytes<Quant>::kMaxSize > 63;
  const __m256i by_sixteen = scales_of_sixteens<Quant>(w);
  // Low half: scales of even groups of sixteen; high half: of odd ones.
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

/// Adds one block of 256 of eight outputs.
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

/// Eight unpacked blocks of 32 of a row of the weight.
template <class Quant>
struct EightBlocks {
  using Block = typename Quant::Block;
#if defined(__AVX512VNNI__)
  __m512i pairs[4];

  explicit EightBlocks(const Block* blocks) {
    for (int p = 0; p < 4; ++p) {
      const Block& first = blocks[2 * p];
      const Block& second = blocks[2 * p + 1];
      if constexpr (std::is_same_v<Quant, Q8_0>) {  // already bytes: add kZero to both blocks at once
        const __m512i both =
            _mm512_inserti64x4(_mm512_castsi256_si512(load_32(first.qs)), load_32(second.qs), 1);
        pairs[p] = _mm512_xor_si512(both, _mm512_set1_epi8(static_cast<char>(Bytes<Quant>::kZero)));
      } else {
        pairs[p] = _mm512_inserti64x4(_mm512_castsi256_si512(Bytes<Quant>::unpack(first)),
                                      Bytes<Quant>::unpack(second), 1);
      }
    }
  }

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
    // Quarters 0 and 1 hold the half sums of blocks 0, 2, 4, 6, quarters 2 and 3 those of 1, 3, 5, 7.
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

/// The terms of eight blocks of 32 that depend on the row of x only.
template <class Quant>
struct SumsOfEight {
  __m256i start{};  // -kZero * sum of x per block
  __m256 sums{};

  SumsOfEight() = default;
  explicit SumsOfEight(const std::int16_t* of_blocks) {
    const __m256i whole = _mm256_cvtepi16_epi32(load_16(of_blocks));
    start = _mm256_mullo_epi32(whole, _mm256_set1_epi32(-Bytes<Quant>::kZero));
    sums = _mm256_cvtepi32_ps(whole);
  }
};

/// Adds eight blocks of 32 of eight outputs; w[n]: those of output n. Vector lanes are blocks of a row, then
/// outputs.
template <class Quant, int kRows>
inline void add_eight_blocks(const ActivationsOf<Quant>& x, std::size_t k,
                             const typename Quant::Block* const (&w)[kByteLanes], __m256 (&totals)[kRows]) {
  __m256i products[kRows][kByteLanes];  // [output] with lanes = blocks; after the transpose [block], outputs
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

/// Adds the last `blocks` < 8 blocks of 32 of eight outputs, one by one.
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
  const std::size_t next = kByteLanes * w.row_bytes();  // distance to the next eight outputs
  for (std::size_t n = n_begin; n < n_end; n += kByteLanes) {
    const std::size_t outputs = std::min(kByteLanes, n_end - n);
    __m256 totals[kRows];
    for (__m256& total : totals) total = _mm256_setzero_ps();
    for (std::size_t k = 0; k < w.columns; k += 256) {
      const std::size_t blocks = std::min<std::size_t>(256, w.columns - k) / kElements;
      const Block* rows[kByteLanes];
      for (std::size_t r = 0; r < kByteLanes; ++r) {
        const std::byte* row = w.row(n + std::min(r, outputs - 1)) + k / kElements * sizeof(Block);
        for (std::size_t line = 0; line < blocks * sizeof(Block); line += 64) prefetch(row, next + line);
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

#if defined(__AVX512F__)
inline constexpr int kByteRows = kHasDotOfBytes ? 6 : 4;  // rows per tile that fit the registers
inline constexpr int kByteVectors = 2;
#else
inline constexpr int kByteRows = 4;
inline constexpr int kByteVectors = 1;
#endif
inline constexpr std::size_t kBytePanels = 16;  // panels per group
inline constexpr std::size_t kByteDepth = 256;

template <class Quant>
struct ByteShapeOf {
  static constexpr std::size_t kBlock = Quant::kFormat.block_size;
  static constexpr std::size_t kGroup = Quant::kGroup;
  static constexpr bool kHasOffsets = Quant::kHasOffsets;
  static constexpr bool kSigned = Bytes<Quant>::kSigned;
  static constexpr int kMax = static_cast<int>(kGroup) / 4;
  static constexpr int kRun =
      kHasDotOfBytes || kSigned
          ? 1
          : std::min(kMax, static_cast<int>(std::bit_floor(32767U / (254U * Bytes<Quant>::kMaxSize))));
};
template <std::size_t kBlockOf, std::size_t kGroupOf, bool kHasOffsetsOf, bool kSignedOf, int kRunOf>
struct ByteShape {
  static constexpr std::size_t kBlock = kBlockOf;
  static constexpr std::size_t kGroup = kGroupOf;
  static constexpr bool kHasOffsets = kHasOffsetsOf;
  static constexpr bool kSigned = kSignedOf;
  static constexpr int kRun = kRunOf;  // steps of four elements that are added in int16
};
template <class Quant>
using ShapeOf =
    ByteShape<ByteShapeOf<Quant>::kBlock, ByteShapeOf<Quant>::kGroup, ByteShapeOf<Quant>::kHasOffsets,
              ByteShapeOf<Quant>::kSigned, ByteShapeOf<Quant>::kRun>;

/// 256 elements of k of kWide outputs.
struct BytePanel {
  alignas(64) std::uint32_t q[kByteDepth / 4][kWide];  // [k / 4][output]: four bytes
  alignas(64) std::uint32_t words[32][kWide];          // BytesOfRow::words per output
  alignas(64) float scale[kWide];
  alignas(64) float offset[kWide];
};

/// 256 elements of k of a row of x.
struct ByteRow {
  alignas(64) std::int8_t q[kByteDepth];
  std::int32_t start[16];  // initial value of each group's sum
  std::int16_t sums[16];   // per sixteen elements
  float scales[8];         // per block; [0] for a block of 256
  float float_sums[8];     // per block of 32
};

/// Adds the products of a group, whose first word of four bytes is `first`, to the sums.
template <class Shape, int kRows, int kVectors>
inline void add_group(const ByteRow* x, const BytePanel* w, std::size_t first,
                      WideBits (&sums)[kRows][kVectors]) {
  constexpr int kWords = static_cast<int>(Shape::kGroup) / 4;
  for (int run = 0; run < kWords; run += Shape::kRun) {
    [[maybe_unused]] WideBits pairs[kRows][kVectors];
    for (int step = 0; step < Shape::kRun; ++step) {
      const std::size_t word = first + static_cast<std::size_t>(run + step);
      WideBits bytes[kVectors];
      for (int v = 0; v < kVectors; ++v) bytes[v] = load_bits(w[v].q[word]);
      for (int i = 0; i < kRows; ++i) {
        const WideBits four = word_of(x[i].q + 4 * word);
        for (int v = 0; v < kVectors; ++v) {
          if constexpr (kHasDotOfBytes) {
            sums[i][v] = dot_of_bytes(sums[i][v], bytes[v], four);
          } else {
            const WideBits pair =
                Shape::kSigned ? signed_pairs_of_8(bytes[v], four) : pairs_of_8(bytes[v], four);
            pairs[i][v] = step == 0 ? pair : add_16(pairs[i][v], pair);
          }
        }
      }
    }
    if constexpr (!kHasDotOfBytes) {
      for (int i = 0; i < kRows; ++i) {
        for (int v = 0; v < kVectors; ++v) {
          sums[i][v] = add_32(sums[i][v], pairs_of_16(pairs[i][v], ones_of_16()));
        }
      }
    }
  }
}

/// Computes or adds one block of 256 for y[kRows, kVectors * kWide].
template <class Shape, int kRows, int kVectors>
inline void large_block_tile(const ByteRow* x, const BytePanel* w, bool add, float* y, std::size_t y_stride) {
  constexpr std::size_t kGroups = 256 / Shape::kGroup;
  WideBits products[kRows][kVectors];
  for (std::size_t g = 0; g < kGroups; ++g) {
    WideBits sums[kRows][kVectors];
    for (int i = 0; i < kRows; ++i) {
      const WideBits start = word_of(x[i].start + g);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = start;
    }
    add_group<Shape>(x, w, g * Shape::kGroup / 4, sums);
    for (int v = 0; v < kVectors; ++v) {
      const WideBits scale = load_bits(w[v].words[g]);
      for (int i = 0; i < kRows; ++i) {
        const WideBits scaled = multiply_32(sums[i][v], scale);
        products[i][v] = g == 0 ? scaled : add_32(products[i][v], scaled);
      }
    }
  }
  for (int i = 0; i < kRows; ++i, y += y_stride) {
    for (int v = 0; v < kVectors; ++v) {
      Wide t = Wide::load(w[v].scale) * to_floats(products[i][v]);
      if constexpr (Shape::kHasOffsets) {
        WideBits offsets = pairs_of_16(word_of(x[i].sums), load_bits(w[v].words[kGroups]));
        for (std::size_t pair = 1; pair < 8; ++pair) {
          offsets = add_32(offsets,
                           pairs_of_16(word_of(x[i].sums + 2 * pair), load_bits(w[v].words[kGroups + pair])));
        }
        t = fma(Wide::load(w[v].offset), to_floats(offsets), t);
      }
      float* to = y + v * static_cast<int>(kWide);
      fma(Wide::set(x[i].scales[0]), t, add ? Wide::load(to) : Wide::set(0.0F)).store(to);
    }
  }
}

/// Computes or adds `blocks` blocks of 32 for y[kRows, kVectors * kWide].
template <class Shape, int kRows, int kVectors>
inline void small_blocks_tile(const ByteRow* x, const BytePanel* w, std::size_t blocks, bool add, float* y,
                              std::size_t y_stride) {
  Wide totals[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      totals[i][v] =
          add ? Wide::load(y + static_cast<std::size_t>(i) * y_stride + v * static_cast<int>(kWide))
              : Wide::set(0.0F);
    }
  }
  for (std::size_t b = 0; b < blocks; ++b) {
    WideBits sums[kRows][kVectors];
    for (int i = 0; i < kRows; ++i) {
      const WideBits start = word_of(x[i].start + b);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = start;
    }
    add_group<Shape>(x, w, b * 8, sums);
    for (int v = 0; v < kVectors; ++v) {
      const Wide scale = as_floats(load_bits(w[v].words[b]));
      for (int i = 0; i < kRows; ++i) {
        Wide t = scale * to_floats(sums[i][v]);
        if constexpr (Shape::kHasOffsets) {
          t = fma(as_floats(load_bits(w[v].words[8 + b])), Wide::set(x[i].float_sums[b]), t);
        }
        totals[i][v] = fma(Wide::set(x[i].scales[b]), t, totals[i][v]);
      }
    }
  }
  for (int i = 0; i < kRows; ++i, y += y_stride) {
    for (int v = 0; v < kVectors; ++v) totals[i][v].store(y + v * static_cast<int>(kWide));
  }
}

template <class Shape, int kRows, int kVectors>
void byte_tile(const ByteRow* x, const BytePanel* w, std::size_t blocks, bool add, float* y,
               std::size_t y_stride) {
  if constexpr (Shape::kBlock == 256) {
    large_block_tile<Shape, kRows, kVectors>(x, w, add, y, y_stride);
  } else {
    small_blocks_tile<Shape, kRows, kVectors>(x, w, blocks, add, y, y_stride);
  }
}

/// byte_tile for 1, 2, ... rows.
template <class Shape, int kVectors>
constexpr auto kByteTiles = []<int... kRows>(std::integer_sequence<int, kRows...>) {
  return std::array{byte_tile<Shape, kRows + 1, kVectors>...};
}
(std::make_integer_sequence<int, kByteRows>());

/// Unpacks 256 elements of kWide rows of the weight, of which `outputs` exist; the others repeat the last.
template <class Quant>
inline void fill_bytes(const std::byte* first, std::size_t row_bytes, std::size_t outputs, std::size_t blocks,
                       BytesOfRow (&rows)[kWide], BytePanel& to) {
  const std::size_t next = kWide * row_bytes;  // distance to the next kWide outputs
  for (std::size_t r = 0; r < kWide; ++r) {
    const std::byte* row = first + std::min(r, outputs - 1) * row_bytes;
    for (std::size_t line = 0; line < blocks * sizeof(typename Quant::Block); line += 64) {
      prefetch(row, next + line);
    }
    unpack_bytes<Quant>(reinterpret_cast<const typename Quant::Block*>(row), blocks, rows[r]);
    to.scale[r] = rows[r].scale;
    to.offset[r] = rows[r].offset;
  }
  constexpr std::size_t kElements = Quant::kFormat.block_size;
  for (std::size_t word = 0; word < blocks * kElements / 4; word += kWide) {
    transpose_words([&](std::size_t r) { return rows[r].q + 4 * word; }, to.q + word);
  }
  constexpr std::size_t kWords =
      kElements == 32 ? (Quant::kHasOffsets ? 16 : 8) : 256 / Quant::kGroup + (Quant::kHasOffsets ? 8 : 0);
  for (std::size_t word = 0; word < kWords; word += kWide) {
    transpose_words([&](std::size_t r) { return rows[r].words + word; }, to.words + word);
  }
}

template <class Quant>
inline void fill_row(const ActivationsOf<Quant>& x, std::size_t row, std::size_t k, std::size_t depth,
                     ByteRow& to) {
  constexpr std::size_t kElements = Quant::kFormat.block_size;
  constexpr int kZero = Bytes<Quant>::kZero;
  if (depth == kByteDepth) {
    std::memcpy(to.q, x.q(row) + k, kByteDepth);
  } else {
    std::memcpy(to.q, x.q(row) + k, depth);
  }
  const std::int16_t* sums = x.sums(row) + k / ActivationsOf<Quant>::kSumOf;
  const float* scales = x.scales(row) + k / kElements;
  if constexpr (kElements == 256) {
    to.scales[0] = *scales;
    std::memcpy(to.sums, sums, sizeof(to.sums));
    for (std::size_t g = 0; g < 256 / Quant::kGroup; ++g) {
      to.start[g] = -kZero * (Quant::kGroup == 16 ? sums[g] : sums[2 * g] + sums[2 * g + 1]);
    }
  } else {
    for (std::size_t b = 0; b < depth / 32; ++b) {
      to.scales[b] = scales[b];
      to.start[b] = -kZero * sums[b];
      to.float_sums[b] = static_cast<float>(sums[b]);
    }
  }
}

/// Multiplies rows of x by the panels of a group, of which `outputs` outputs exist.
template <class Shape>
inline void multiply_panels_of_bytes(const ByteRow* x, std::size_t rows, const BytePanel* panels,
                                     std::size_t outputs, std::size_t blocks, bool add, float* y,
                                     std::size_t y_stride) {
  std::size_t n = 0;
  const auto one = kByteTiles<Shape, 1>[rows - 1];
  if constexpr (kByteVectors > 1) {
    const auto several = kByteTiles<Shape, kByteVectors>[rows - 1];
    for (; n + kByteVectors * kWide <= outputs; n += kByteVectors * kWide) {
      several(x, panels + n / kWide, blocks, add, y + n, y_stride);
    }
  }
  for (; n + kWide <= outputs; n += kWide) one(x, panels + n / kWide, blocks, add, y + n, y_stride);
  if (n == outputs) return;
  float whole[kByteRows][kWide] = {};
  const std::size_t bytes = (outputs - n) * sizeof(float);
  if (add) {
    for (std::size_t i = 0; i < rows; ++i) std::memcpy(whole[i], y + i * y_stride + n, bytes);
  }
  one(x, panels + n / kWide, blocks, add, whole[0], kWide);
  for (std::size_t i = 0; i < rows; ++i) std::memcpy(y + i * y_stride + n, whole[i], bytes);
}

template <class Quant>
void multiply_many_by_bytes(RowList listed, std::size_t m, const WeightView& w, float* y,
                            std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  constexpr std::size_t kElements = Quant::kFormat.block_size;
  const ActivationsOf<Quant> x(listed, w.columns);
  constexpr std::size_t kGroupOutputs = kBytePanels * kWide;
  const std::size_t tiles = (m + kByteRows - 1) / kByteRows;
  BytePanel panels[kBytePanels];
  BytesOfRow unpacked[kWide] = {};
  ByteRow some[kByteRows] = {};
  for (std::size_t n = n_begin; n < n_end; n += kGroupOutputs) {
    const std::size_t outputs = std::min(kGroupOutputs, n_end - n);
    for (std::size_t k = 0; k < w.columns; k += kByteDepth) {
      const std::size_t depth = std::min(kByteDepth, w.columns - k);
      const std::size_t blocks = depth / kElements;
      for (std::size_t lanes = 0; lanes < outputs; lanes += kWide) {
        fill_bytes<Quant>(w.row(n + lanes) + k / kElements * Quant::kFormat.block_bytes, w.row_bytes(),
                          outputs - lanes, blocks, unpacked, panels[lanes / kWide]);
      }
      for (std::size_t tile = 0; tile < tiles; ++tile) {
        const std::size_t first = m * tile / tiles;
        const std::size_t rows = m * (tile + 1) / tiles - first;
        for (std::size_t i = 0; i < rows; ++i) fill_row<Quant>(x, first + i, k, depth, some[i]);
        multiply_panels_of_bytes<ShapeOf<Quant>>(some, rows, panels, outputs, blocks, k != 0,
                                                 y + first * y_stride + n, y_stride);
      }
    }
  }
}

template <class Quant, MultiplyRows kMany>
void multiply_by_bytes(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                       std::size_t n_begin, std::size_t n_end) {
  if (m == 0) return;
  if (m > kFewByteRows) return kMany(listed, m, w, y, y_stride, n_begin, n_end);
  constexpr auto kFew = []<int... kRows>(std::integer_sequence<int, kRows...>) {
    return std::array{multiply_few_by_bytes<Quant, kRows + 1>...};
  }
  (std::make_integer_sequence<int, kFewByteRows>());
  kFew[m - 1]({listed, w.columns}, w, y, y_stride, n_begin, n_end);
}

constexpr auto products_by_bytes() {
  return products_of_quants([]<class Quant>() {
    return product_of_integers<Quant, multiply_by_bytes<Quant, multiply_many_by_bytes<Quant>>>(2 * kWide);
  });
}

}  // namespace
}  // namespace reprise::gpu
