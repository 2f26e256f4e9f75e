#pragma once
// How quantised weights lie in a GPU's memory, and how a lane reads them. Included by CUDA sources alone.
//
// Eight rows of W by 256 columns are a block: the bytes that the file has for them, in another order. First the headers
// (scales) of the eight rows, then four chunks of 64 columns; blocks of the same rows follow each other along the columns.
// Columns are filled up to 256 with zeros, rows to eight. A Format says
//   kHeaderBytes, kChunkBytes     of eight rows; multiples of 16
//   kHasOffset                    whether something is added to (number - zero) * scale
//   kScales                       of a row in a chunk: each has 64 / kScales columns
//   kZero                         what is taken from numbers before they are multiplied, where they have few bits and read()
//                                 gives them with 128 added; -1: it gives them as they are
//   factor(header, row, chunk, i) the i-th of the scales, and what is added; row of the eight, chunk of the four
//   read(chunk, lane, q)          what lane 4 g + t needs of a chunk for a tensor core: the columns of row g that thread t
//                                 gives to instruction s (gpu/cuda/decode_product.cuh) in pairs 2 (s % 2), ... of q[s / 2]
//
// Within a row of a chunk stand the words of t = 0, of each its first eight numbers and then its second eight. Numbers of
// four bits: a word has eight, pair i at bits 4 i and 16 + 4 i. Bytes: two words have eight, pairs 0 and 1 in the first, at
// bits 0 and 16, and 8 and 24.

#include <type_traits>

#include "gpu/cuda/quants/values.cuh"

namespace reprise::gpu::cuda::quants {

inline constexpr int kRows = 8;
inline constexpr int kColumns = 256;
inline constexpr int kChunkColumns = 64;
inline constexpr int kChunks = kColumns / kChunkColumns;

template <class Format>
inline constexpr int kBlockBytes = Format::kHeaderBytes + kChunks* Format::kChunkBytes;

/// Columns in a row that a thread has together: an instruction takes those of one scale.
template <class Format>
inline constexpr int kRun = Format::kScales == 4 ? 4 : 8;

__device__ __forceinline__ uint2 two_words(const std::byte* chunk, int lane) {
  return *reinterpret_cast<const uint2*>(chunk + 8 * lane);
}
__device__ __forceinline__ uint4 four_words(const std::byte* chunk, int lane) {
  return *reinterpret_cast<const uint4*>(chunk + 16 * lane);
}

struct NoMore {
  static constexpr std::uint32_t kMask = 0;
};
/// Numbers of four bits, and of `more(half, i)` those of pair i above them, where its mask has ones.
template <class More>
__device__ __forceinline__ void read_nibbles(uint2 words, Pair (&q)[2][4], const More& more) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t word = half == 0 ? words.x : words.y;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      q[half][i] = few_bits(word >> (4 * i), 0x000f000f);
      if constexpr (More::kMask != 0) {
        q[half][i] = as_pair(masked_or(more(half, i), More::kMask, bits_of(q[half][i])));
      }
    }
  }
}

__device__ __forceinline__ void read_bytes(uint4 words, Pair (&q)[2][4]) {
  const std::uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t from = word[2 * half + i / 2];
      q[half][i] = signed_bytes(i % 2 == 0 ? from : from >> 8);
    }
  }
}

/// Header: f16 [8 rows][8 groups of 32].
__device__ __forceinline__ Factor factor_of_32(const std::byte* header, int row, int chunk, int i) {
  const auto* scales = reinterpret_cast<const std::uint16_t*>(header);
  return {half_as_float(scales[8 * row + 2 * chunk + i]), 0};
}

struct Q8_0 {
  static constexpr int kHeaderBytes = 128;
  static constexpr int kChunkBytes = 512;
  static constexpr bool kHasOffset = false;
  static constexpr int kScales = 2;
  static constexpr int kZero = -1;
  __device__ static Factor factor(const std::byte* header, int row, int chunk, int i) {
    return factor_of_32(header, row, chunk, i);
  }
  __device__ static void read(const std::byte* chunk, int lane, Pair (&q)[2][4]) {
    read_bytes(four_words(chunk, lane), q);
  }
};

struct Q4_0 {
  static constexpr int kHeaderBytes = 128;
  static constexpr int kChunkBytes = 256;
  static constexpr bool kHasOffset = false;
  static constexpr int kScales = 2;
  static constexpr int kZero = 8;
  __device__ static Factor factor(const std::byte* header, int row, int chunk, int i) {
    return factor_of_32(header, row, chunk, i);
  }
  __device__ static void read(const std::byte* chunk, int lane, Pair (&q)[2][4]) {
    read_nibbles(two_words(chunk, lane), q, NoMore{});
  }
};

/// Header: of a row 16 bytes: f16 d, f16 dmin, then for each chunk three bytes: scale, offset, scale, offset of six bits.
/// The numbers are taken less kZero, so that what is added to them is small.
template <int kZero>
__device__ __forceinline__ Factor factor_of_six_bits(const std::byte* header, int row, int chunk, int i) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(header) + 4 * row;
  const std::uint32_t both = words[0];
  const std::uint32_t first = words[1 + 3 * chunk / 4];
  const std::uint32_t second = words[3 * chunk / 4 < 2 ? 2 + 3 * chunk / 4 : 3];
  const std::uint32_t six = __funnelshift_r(first, second, 3 * chunk % 4 * 8) >> (12 * i);
  const float scale = __fmul_rn(half_as_float(both), static_cast<float>(six & 63));
  const float offset = __fmul_rn(half_as_float(both >> 16), static_cast<float>((six >> 6) & 63));
  return {scale, __fmaf_rn(static_cast<float>(kZero), scale, -offset)};
}

struct Q4_K {
  static constexpr int kHeaderBytes = 128;
  static constexpr int kChunkBytes = 256;
  static constexpr bool kHasOffset = true;
  static constexpr int kScales = 2;
  static constexpr int kZero = 8;
  __device__ static Factor factor(const std::byte* header, int row, int chunk, int i) {
    return factor_of_six_bits<kZero>(header, row, chunk, i);
  }
  __device__ static void read(const std::byte* chunk, int lane, Pair (&q)[2][4]) {
    read_nibbles(two_words(chunk, lane), q, NoMore{});
  }
};

/// A chunk is that of Q4_K, then for each lane 16 bits: of half h and pair i the fifth bits at 8 h + i and 8 h + 4 + i.
struct Q5_K {
  struct Fifth {
    static constexpr std::uint32_t kMask = 0x00100010;
    std::uint32_t of_half[2];
    __device__ std::uint32_t operator()(int half, int i) const { return of_half[half] << (4 - i); }
  };
  static constexpr int kHeaderBytes = 128;
  static constexpr int kChunkBytes = 256 + 64;
  static constexpr bool kHasOffset = true;
  static constexpr int kScales = 2;
  static constexpr int kZero = 16;
  __device__ static Factor factor(const std::byte* header, int row, int chunk, int i) {
    return factor_of_six_bits<kZero>(header, row, chunk, i);
  }
  __device__ static void read(const std::byte* chunk, int lane, Pair (&q)[2][4]) {
    const std::uint32_t bits = reinterpret_cast<const std::uint16_t*>(chunk + 256)[lane];
    read_nibbles(two_words(chunk, lane), q, Fifth{{(bits & 0xff) | bits << 12, bits >> 8 | bits >> 8 << 12}});
  }
};

/// Header: signed bytes [8 rows][16 groups of 16], then f16 d [8 rows]. A chunk has for each lane three words, of which
/// two stand together and the third ones behind them all: in the lower and in the upper half of a word are two numbers of six
/// bits, pairs 0 and 1, 2 and 3, 4 and 5, and above them four bits of those of pairs 6 and 7.
struct Q6_K {
  static constexpr int kHeaderBytes = 128 + 16;
  static constexpr int kChunkBytes = 256 + 128;
  static constexpr bool kHasOffset = false;
  static constexpr int kScales = 4;
  static constexpr int kZero = 32;
  __device__ static Factor factor(const std::byte* header, int row, int chunk, int i) {
    const int number = reinterpret_cast<const std::int8_t*>(header)[16 * row + 4 * chunk + i];
    const float d = half_as_float(reinterpret_cast<const std::uint16_t*>(header + 128)[row]);
    return {__fmul_rn(d, static_cast<float>(number)), 0};
  }
  __device__ static void read(const std::byte* chunk, int lane, Pair (&q)[2][4]) {
    const uint2 words = two_words(chunk, lane);
    const std::uint32_t third = reinterpret_cast<const std::uint32_t*>(chunk + 256)[lane];
    constexpr std::uint32_t kSix = 0x003f003f;
    constexpr std::uint32_t kLowerFour = 0x000f000f;
    constexpr std::uint32_t kUpperTwo = 0x00300030;
    q[0][0] = few_bits(words.x, kSix);
    q[0][1] = few_bits(words.x >> 6, kSix);
    q[0][2] = few_bits(words.y, kSix);
    q[0][3] = few_bits(words.y >> 6, kSix);
    q[1][0] = few_bits(third, kSix);
    q[1][1] = few_bits(third >> 6, kSix);
    q[1][2] = as_pair(masked_or(words.y >> 8, kUpperTwo, bits_of(few_bits(words.x >> 12, kLowerFour))));
    q[1][3] = as_pair(masked_or(words.y >> 10, kUpperTwo, bits_of(few_bits(third >> 12, kLowerFour))));
  }
};

/// Header: of a row 8 bytes: f16 d, upper two bits of eight scales, lower four bits of them, as in files. Numbers of four
/// bits choose signed bytes; of four that follow each other the second and the third have changed places.
struct IQ4_XS {
  static constexpr int kHeaderBytes = 64;
  static constexpr int kChunkBytes = 256;
  static constexpr bool kHasOffset = false;
  static constexpr int kScales = 2;
  static constexpr int kZero = -1;
  __device__ static Factor factor(const std::byte* header, int row, int chunk, int i) {
    const uint2 words = reinterpret_cast<const uint2*>(header)[row];
    const int group = 2 * chunk + i;
    const std::uint32_t low = words.y >> (4 * group) & 15;
    const std::uint32_t high = words.x >> (16 + 2 * group) & 3;
    const int number = static_cast<int>(low | high << 4) - 32;
    return {__fmul_rn(half_as_float(words.x), static_cast<float>(number)), 0};
  }
  /// -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113, for the four numbers in the lower half of `word`.
  __device__ static std::uint32_t four_bytes(std::uint32_t word) {
    const std::uint32_t index = word & 0x7777;
    const std::uint32_t below = __byte_perm(0xbfad9881, 0xf6eaddcf, index);
    const std::uint32_t above = __byte_perm(0x26190d01, 0x71594535, index);
    return __byte_perm(below, above, 0x3210 + ((word & 0x8888) >> 1));
  }
  __device__ static void read(const std::byte* chunk, int lane, Pair (&q)[2][4]) {
    const uint2 words = two_words(chunk, lane);
    read_bytes(make_uint4(four_bytes(words.x), four_bytes(words.x >> 16), four_bytes(words.y),
                          four_bytes(words.y >> 16)),
               q);
  }
};

/// FP8 e4m3 with a scale for a row, or for a tile of 128 x 128. Header: f32 [8 rows][2 halves of the columns].
struct F8 {
  static constexpr int kHeaderBytes = 64;
  static constexpr int kChunkBytes = 512;
  static constexpr bool kHasOffset = false;
  static constexpr int kScales = 2;
  static constexpr int kZero = -1;
  __device__ static Factor factor(const std::byte* header, int row, int chunk, int /*i*/) {
    return {reinterpret_cast<const float*>(header)[2 * row + chunk / 2], 0};
  }
  __device__ static void read(const std::byte* chunk, int lane, Pair (&q)[2][4]) {
    const uint4 words = four_words(chunk, lane);
    const std::uint32_t word[4] = {words.x, words.y, words.z, words.w};
    const Pair exponents = as_pair(0x7b807b80);  // 2^120: between the biases of the exponents
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t bytes = word[2 * half + i / 2] >> (i % 2 * 8);
        const std::uint32_t moved = ((bytes << 8) & 0x80008000) | ((bytes << 4) & 0x07f007f0);
        q[half][i] = __hmul2_rn(as_pair(moved), exponents);
      }
    }
  }
};

// -- rows as bf16

/// read(), less zero.
template <class Format>
__device__ __forceinline__ void numbers(const std::byte* chunk, int lane, Pair (&q)[2][4]) {
  Format::read(chunk, lane, q);
  if constexpr (Format::kZero >= 0) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) q[half][i] = less_zero<Format::kZero>(q[half][i]);
    }
  }
}

/// The columns of row lane / 4 that lane has of a chunk: `put(k, run)` gets kRun bf16 from column k of the chunk on.
template <class Format, class Put>
__device__ __forceinline__ void expand_from(const std::byte* block, int chunk, int lane, const Put& put) {
  Pair q[2][4];
  numbers<Format>(block + Format::kHeaderBytes + chunk * Format::kChunkBytes, lane, q);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    std::uint32_t values[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int of_scale = Format::kScales == 2 ? half : 2 * half + i / 2;
      values[i] = value_of<Format::kHasOffset>(q[half][i],
                                               make_scale(Format::factor(block, lane / 4, chunk, of_scale)));
    }
    if constexpr (kRun<Format> == 8) {
      put(32 * half + 8 * (lane % 4), make_uint4(values[0], values[1], values[2], values[3]));
    } else {
      put(32 * half + 4 * (lane % 4), make_uint2(values[0], values[1]));
      put(32 * half + 16 + 4 * (lane % 4), make_uint2(values[2], values[3]));
    }
  }
}

}  // namespace reprise::gpu::cuda::quants
