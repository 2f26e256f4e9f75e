#pragma once
// Layout of quantized weights in GPU memory, their conversion to bf16, fragment loads, and repacking from the
// file layout.

#include <cuda_fp16.h>

#include <type_traits>

#include "gpu/cuda/gemm/decode_product.cuh"
#include "gpu/cuda/gemm/tensor_core.cuh"

namespace reprise::gpu::cuda::quants {

// -- dequantization. A prefill uses q * scale (+ offset) rounded to bf16, with the scale as the sum of two
// bf16 (16 bits): the nearest bf16 to the file's value, or its neighbor. Decode multiplies by the integers q,
// exact in bf16, and scales the sums in f32 (products.cuh).

/// Two integers as bf16, exact.
using Pair = __nv_bfloat162;

/// Scale and offset of a group.
struct Factor {
  float scale;
  float offset;
};
/// A Factor in bf16, twice in each word.
struct Scale {
  std::uint32_t high;
  std::uint32_t low;
  std::uint32_t offset;
};

__device__ __forceinline__ Pair as_pair(std::uint32_t bits) {
  return *reinterpret_cast<const Pair*>(&bits);
}
__device__ __forceinline__ std::uint32_t bits_of(Pair pair) {
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ __forceinline__ float half_as_float(std::uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

__device__ __forceinline__ Scale make_scale(const Factor& factor) {
  const std::uint32_t high = narrow(factor.scale, factor.scale);
  const float rest = __fsub_rn(factor.scale, widen_pair(high).x);
  return {high, narrow(rest, rest), narrow(factor.offset, factor.offset)};
}

template <bool kHasOffset>
__device__ __forceinline__ std::uint32_t value_of(Pair integers, const Scale& scale) {
  const Pair low = as_pair(scale.low);
  const Pair rest = kHasOffset ? __hfma2(integers, low, as_pair(scale.offset)) : __hmul2_rn(integers, low);
  return bits_of(__hfma2(integers, as_pair(scale.high), rest));
}

// -- integers, from bits to bf16

constexpr std::uint32_t kTwice128 = 0x43004300;  // two bf16 of 128, whose last mantissa bit is 1

/// (bits & mask) | more in one LOP3; with constant masks the compiler emits two instructions.
__device__ __forceinline__ std::uint32_t masked_or(std::uint32_t bits, std::uint32_t mask,
                                                   std::uint32_t more) {
  std::uint32_t both;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(both) : "r"(bits), "r"(mask), "r"(more));
  return both;
}

/// Integers of up to 7 bits, at bits 0 and 16 under `mask`, plus 128.
__device__ __forceinline__ Pair few_bits(std::uint32_t bits, std::uint32_t mask) {
  return as_pair(masked_or(bits, mask, kTwice128));
}
template <int kZero>
__device__ __forceinline__ Pair less_zero(Pair integers_and_128) {
  return __hsub2(integers_and_128, as_pair(kTwice128 + kZero * 0x00010001U));
}
/// Signed bytes at bits 0 and 16; other bits are ignored. The sign bit makes the subtrahend 256.
__device__ __forceinline__ Pair signed_bytes(std::uint32_t bytes) {
  return __hsub2(few_bits(bytes, 0x007f007f), few_bits(bytes, 0x00800080));
}

// -- layout. A block is eight rows of W by 256 columns: the headers (scales) of the eight rows, then four
// chunks of 64 columns. Blocks of the same rows are contiguous along the columns. Columns are zero-padded to
// 256, rows to eight. A Format defines
//   kHeaderBytes, kChunkBytes     of eight rows; multiples of 16
//   kHasOffset                    whether an offset is added to (q - zero) * scale
//   kScales                       scales per row and chunk, each for 64 / kScales columns
//   kZero                         zero point; read() returns q + 128. -1: read() returns q itself
//   factor(header, row, chunk, i) scale i and offset; row of the eight, chunk of the four
//   read(chunk, lane, q)          fragment of lane 4 g + t: the columns of row g that thread t supplies to MMA s
//                                 (decode_product.cuh), as pairs 2 (s % 2), ... of q[s / 2]
//
// A row of a chunk has the words of t = 0 first, then of t = 1, 2, 3; of each t the first eight integers,
// then the second eight. 4-bit: a word has eight, pair i at bits 4 i and 16 + 4 i. Bytes: two words have
// eight, pairs 0 and 1 in the first, at bits 0 and 16, and 8 and 24.

inline constexpr int kRows = 8;
inline constexpr int kColumns = 256;
inline constexpr int kChunkColumns = 64;
inline constexpr int kChunks = kColumns / kChunkColumns;

template <class Format>
inline constexpr int kBlockBytes = Format::kHeaderBytes + kChunks* Format::kChunkBytes;

/// Run length (decode_product.cuh): an MMA takes columns of a single scale.
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
/// 4-bit integers, with the higher bits that `more(half, i)` supplies for pair i under its mask.
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

/// Header, 16 bytes per row: f16 d, f16 dmin, then three bytes per chunk: scale, offset, scale, offset of six
/// bits. Integers are relative to kZero, which keeps the offset small.
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

/// A chunk is that of Q4_K, then 16 bits per lane: the fifth bits of half h and pair i at 8 h + i and 8 h + 4
/// + i.
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

/// Header: signed bytes [8 rows][16 groups of 16], then f16 d [8 rows]. A chunk has three words per lane: two
/// together, then all third ones. Each half of a word has two 6-bit integers (pairs 0 and 1, 2 and 3, 4 and
/// 5) and above them four bits of pairs 6 and 7.
struct Q6_K {
  static constexpr int kHeaderBytes = 128 + 16;
  static constexpr int kChunkBytes = 256 + 128;
  static constexpr bool kHasOffset = false;
  static constexpr int kScales = 4;
  static constexpr int kZero = 32;
  __device__ static Factor factor(const std::byte* header, int row, int chunk, int i) {
    const int integer = reinterpret_cast<const std::int8_t*>(header)[16 * row + 4 * chunk + i];
    const float d = half_as_float(reinterpret_cast<const std::uint16_t*>(header + 128)[row]);
    return {__fmul_rn(d, static_cast<float>(integer)), 0};
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

/// Header, 8 bytes per row: f16 d, high two bits of eight scales, low four bits of them, as in the file.
/// 4-bit indices select signed bytes; of four consecutive indices the second and third are swapped.
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
    const int integer = static_cast<int>(low | high << 4) - 32;
    return {__fmul_rn(half_as_float(words.x), static_cast<float>(integer)), 0};
  }
  /// Looks up -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113 for the four indices in the lower
  /// half of `word`.
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

/// FP8 e4m3 with a scale per row or per 128 x 128 tile. Header: f32 [8 rows][2 halves of the columns].
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
    const Pair exponents = as_pair(0x7b807b80);  // 2^120, the difference of the exponent biases
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

// -- expansion to bf16

/// read() minus the zero point.
template <class Format>
__device__ __forceinline__ void integers(const std::byte* chunk, int lane, Pair (&q)[2][4]) {
  Format::read(chunk, lane, q);
  if constexpr (Format::kZero >= 0) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) q[half][i] = less_zero<Format::kZero>(q[half][i]);
    }
  }
}

/// Expands this lane's columns of row lane / 4 of a chunk: put(k, run) receives kRun bf16 from column k.
template <class Format, class Put>
__device__ __forceinline__ void expand_from(const std::byte* block, int chunk, int lane, const Put& put) {
  Pair q[2][4];
  integers<Format>(block + Format::kHeaderBytes + chunk * Format::kChunkBytes, lane, q);
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

// -- repacking from the file layout. A thread has 256 columns of a row and writes its share of the block. A
// Source defines
//   Format                             the GPU layout
//   number(row, k)                     the integer of column k, unsigned if it has few bits, else its byte
//   put_header(row, first, in, header) writes the scales from column `first`; the row is number `in` of the block
// and `columns`; columns past the end become zero.

/// Rows of a tensor in the file layout.
struct FileRows {
  const std::byte* data;
  const float* scales;  // null: no separate scales
  int row_bytes;
  int scale_rows;  // rows and columns per scale
  int scale_columns;
  int scales_of_row;
  int first_scaled;  // index in the tensor of the first row
};

__device__ __forceinline__ std::uint16_t two_bytes(const std::byte* from) {
  return *reinterpret_cast<const std::uint16_t*>(from);
}
__device__ __forceinline__ unsigned one_byte(const std::byte* from) {
  return static_cast<unsigned>(*from);
}

/// Blocks of 32 after an f16 scale.
template <class To, int kBytes>
struct Blocks32 {
  using Format = To;
  FileRows rows;
  int columns;

  __device__ const std::byte* block(int row, int k) const {
    return rows.data + static_cast<std::size_t>(row) * rows.row_bytes + k / 32 * kBytes;
  }
  __device__ void put_header(int row, int first, int in, std::byte* header) const {
    auto* to = reinterpret_cast<std::uint16_t*>(header) + 8 * in;
    for (int i = 0; i < 8; ++i) to[i] = first + 32 * i < columns ? two_bytes(block(row, first + 32 * i)) : 0;
  }
};
struct FileQ8_0 : Blocks32<Q8_0, 34> {
  __device__ unsigned integer(int row, int k) const { return one_byte(block(row, k) + 2 + k % 32); }
};
struct FileQ4_0 : Blocks32<Q4_0, 18> {
  __device__ unsigned integer(int row, int k) const {
    return one_byte(block(row, k) + 2 + k % 16) >> (k % 32 / 16 * 4) & 15;
  }
};

/// Blocks of 256.
template <class To, int kBytes>
struct Blocks256 {
  using Format = To;
  FileRows rows;
  int columns;

  __device__ const std::byte* block(int row, int k) const {
    return rows.data + static_cast<std::size_t>(row) * rows.row_bytes + k / 256 * kBytes;
  }
};
/// Elements 64 p ... 64 p + 31 are the low nibbles of 32 bytes, the next 32 the high ones.
__device__ __forceinline__ unsigned nibble_of_64(const std::byte* qs, int k) {
  return one_byte(qs + k % 256 / 64 * 32 + k % 32) >> (k % 64 / 32 * 4) & 15;
}
/// Repacks eight 6-bit scales and offsets from twelve bytes, chunk by chunk.
__device__ __forceinline__ void put_six_bits(const std::byte* block, int in, std::byte* header) {
  const std::byte* s = block + 4;
  auto* to = reinterpret_cast<std::uint8_t*>(header) + 16 * in;
  for (int i = 0; i < 4; ++i) to[i] = static_cast<std::uint8_t>(block[i]);
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    unsigned bits = 0;
    for (int i = 0; i < 2; ++i) {
      const int group = 2 * chunk + i;
      const unsigned scale = group < 4 ? one_byte(s + group) & 63
                                       : (one_byte(s + group + 4) & 15) | one_byte(s + group - 4) >> 6 << 4;
      const unsigned offset = group < 4 ? one_byte(s + group + 4) & 63
                                        : one_byte(s + group + 4) >> 4 | one_byte(s + group) >> 6 << 4;
      bits |= (scale | offset << 6) << (12 * i);
    }
    for (int i = 0; i < 3; ++i) to[4 + 3 * chunk + i] = static_cast<std::uint8_t>(bits >> (8 * i));
  }
}
struct FileQ4_K : Blocks256<Q4_K, 144> {
  __device__ unsigned integer(int row, int k) const { return nibble_of_64(block(row, k) + 16, k); }
  __device__ void put_header(int row, int first, int in, std::byte* header) const {
    put_six_bits(block(row, first), in, header);
  }
};
struct FileQ5_K : Blocks256<Q5_K, 176> {
  __device__ unsigned integer(int row, int k) const {
    const std::byte* from = block(row, k) + 16;
    return nibble_of_64(from + 32, k) | (one_byte(from + k % 32) >> (k % 256 / 32) & 1) << 4;
  }
  __device__ void put_header(int row, int first, int in, std::byte* header) const {
    put_six_bits(block(row, first), in, header);
  }
};
struct FileQ6_K : Blocks256<Q6_K, 210> {
  __device__ unsigned integer(int row, int k) const {
    const std::byte* from = block(row, k);
    const int half = k % 256 / 128;
    const unsigned low = one_byte(from + 64 * half + k % 64) >> (k % 128 / 64 * 4) & 15;
    const unsigned high = one_byte(from + 128 + 32 * half + k % 32) >> (k % 128 / 32 * 2) & 3;
    return low | high << 4;
  }
  __device__ void put_header(int row, int first, int in, std::byte* header) const {
    const std::byte* from = block(row, first);
    for (int i = 0; i < 16; ++i) header[16 * in + i] = from[192 + i];
    reinterpret_cast<std::uint16_t*>(header + 128)[in] = two_bytes(from + 208);
  }
};
struct FileIQ4_XS : Blocks256<IQ4_XS, 136> {
  __device__ unsigned integer(int row, int k) const {
    return one_byte(block(row, k) + 8 + k % 256 / 32 * 16 + k % 16) >> (k % 32 / 16 * 4) & 15;
  }
  __device__ void put_header(int row, int first, int in, std::byte* header) const {
    for (int i = 0; i < 8; ++i) header[8 * in + i] = block(row, first)[i];
  }
};

struct FileF8 {
  using Format = F8;
  FileRows rows;
  int columns;

  __device__ unsigned integer(int row, int k) const {
    return one_byte(rows.data + static_cast<std::size_t>(row) * rows.row_bytes + k);
  }
  __device__ void put_header(int row, int first, int in, std::byte* header) const {
    const float* scales =
        rows.scales +
        static_cast<std::size_t>((rows.first_scaled + row) / rows.scale_rows) * rows.scales_of_row;
    for (int i = 0; i < 2; ++i) {
      const int k = first + 128 * i;
      reinterpret_cast<float*>(header)[2 * in + i] = k < columns ? scales[k / rows.scale_columns] : 0.0F;
    }
  }
};

// -- a lane's words of a chunk: at(i) is the integer of column i of its 16

template <class At>
__device__ __forceinline__ std::uint32_t pair_of(const At& at, int i) {
  return at(2 * i) | at(2 * i + 1) << 16;
}
template <class At>
__device__ __forceinline__ std::uint32_t pack_nibbles(const At& at, int first) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word |= (pair_of(at, first + i) & 0x000f000f) << (4 * i);
  return word;
}
template <class At>
__device__ __forceinline__ std::uint32_t pack_bytes(const At& at, int first) {
  return pair_of(at, first) | pair_of(at, first + 1) << 8;
}

template <class Format, class At>
__device__ __forceinline__ void put_integers(std::byte* chunk, int lane, const At& at) {
  if constexpr (Format::kChunkBytes == 512) {
    auto* to = reinterpret_cast<std::uint32_t*>(chunk) + 4 * lane;
    for (int i = 0; i < 4; ++i) to[i] = pack_bytes(at, 2 * i);
  } else {
    auto* to = reinterpret_cast<std::uint32_t*>(chunk) + 2 * lane;
    if constexpr (std::is_same_v<Format, Q6_K>) {
      std::uint32_t pair[8];
      for (int i = 0; i < 8; ++i) pair[i] = pair_of(at, i);
      to[0] = pair[0] | pair[1] << 6 | (pair[6] & 0x000f000f) << 12;
      to[1] = pair[2] | pair[3] << 6 | (pair[6] & 0x00300030) << 8 | (pair[7] & 0x00300030) << 10;
      reinterpret_cast<std::uint32_t*>(chunk + 256)[lane] =
          pair[4] | pair[5] << 6 | (pair[7] & 0x000f000f) << 12;
    } else if constexpr (std::is_same_v<Format, IQ4_XS>) {
      const auto four = [&](int first) {
        return at(first) | at(first + 2) << 4 | at(first + 1) << 8 | at(first + 3) << 12;
      };
      for (int half = 0; half < 2; ++half) to[half] = four(8 * half) | four(8 * half + 4) << 16;
    } else {
      for (int half = 0; half < 2; ++half) to[half] = pack_nibbles(at, 4 * half);
    }
    if constexpr (std::is_same_v<Format, Q5_K>) {
      unsigned bits = 0;
      for (int i = 0; i < 16; ++i) bits |= (at(i) >> 4) << (i / 8 * 8 + i % 2 * 4 + i % 8 / 2);
      reinterpret_cast<std::uint16_t*>(chunk + 256)[lane] = static_cast<std::uint16_t>(bits);
    }
  }
}

/// Repacks rows of a file into rows `first_row` ... of a weight with `blocks` blocks per row. One row of a
/// block per thread.
template <class Source>
__global__ void pack_rows(Source source, int rows, int first_row, int blocks, std::byte* to) {
  using Format = typename Source::Format;
  const int block = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  if (block >= blocks || row >= rows) return;
  const int to_row = first_row + row;
  const int in = to_row % kRows;
  std::byte* at_block =
      to + (static_cast<std::size_t>(to_row / kRows) * blocks + block) * kBlockBytes<Format>;
  source.put_header(row, block * kColumns, in, at_block);
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    std::byte* integers = at_block + Format::kHeaderBytes + chunk * Format::kChunkBytes;
    for (int t = 0; t < 4; ++t) {
      put_integers<Format>(integers, 4 * in + t, [&](int i) {
        const int k =
            block * kColumns + chunk * kChunkColumns + product::k_in_chunk<kRun<Format>>(i / 4, t) + i % 4;
        return k < source.columns ? source.integer(row, k) : 0U;
      });
    }
  }
}

}  // namespace reprise::gpu::cuda::quants
