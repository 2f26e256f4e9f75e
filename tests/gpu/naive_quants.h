#pragma once
// Reference implementation of GGUF's quantized formats, element by element from their description, and random
// weights in them. Slow, and deliberately written differently from the kernels.

#include <functional>

#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {

/// Extracts `count` bits from bit `first` on, least significant first.
inline int bits_of(const std::uint8_t* bytes, std::size_t first, std::size_t count) {
  int value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t bit = first + i;
    value |= (bytes[bit / 8] >> (bit % 8) & 1) << i;
  }
  return value;
}

inline float half_at(const std::uint8_t* bytes) {
  return from_f16(static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8));
}

/// Element k of a block of 32 whose 4-bit elements begin at `bytes`.
inline int nibble_of_32(const std::uint8_t* bytes, std::size_t k) {
  return bits_of(bytes, k % 16 * 8 + k / 16 * 4, 4);
}

/// The 6-bit scale or, with `offset`, the offset of a group of 32 in Q4_K and Q5_K.
inline int six_bits(const std::uint8_t* scales, std::size_t group, bool offset) {
  if (group < 4) return bits_of(scales, 8 * (group + (offset ? 4 : 0)), 6);
  const int low = bits_of(scales, 8 * (group + 4) + (offset ? 4 : 0), 4);
  return low + 16 * bits_of(scales, 8 * (group - (offset ? 0 : 4)) + 6, 2);
}

constexpr int kNaiveNonLinear[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Dequantizes single elements of a block.
struct NaiveQuant {
  const WeightFormat* format;
  std::vector<std::size_t> halves;  // offsets of the f16 values in a block
  std::function<float(const std::uint8_t* block, std::size_t k)> value;
};

inline const std::vector<NaiveQuant>& naive_quants() {
  using Bytes = const std::uint8_t*;
  const auto scaled = [](float scale, int group_scale, int q) {
    return scale * static_cast<float>(group_scale) * static_cast<float>(q);
  };
  static const std::vector<NaiveQuant> all = {
      {&kQ8_0Format,
       {0},
       [](Bytes b, std::size_t k) {
         return half_at(b) * static_cast<float>(static_cast<std::int8_t>(b[2 + k]));
       }},
      {&kQ4_0Format,
       {0},
       [](Bytes b, std::size_t k) { return half_at(b) * static_cast<float>(nibble_of_32(b + 2, k) - 8); }},
      {&kQ4_1Format,
       {0, 2},
       [](Bytes b, std::size_t k) {
         const float product = half_at(b) * static_cast<float>(nibble_of_32(b + 4, k));
         return product + half_at(b + 2);
       }},
      {&kQ5_0Format,
       {0},
       [](Bytes b, std::size_t k) {
         return half_at(b) * static_cast<float>(nibble_of_32(b + 6, k) + 16 * bits_of(b + 2, k, 1) - 16);
       }},
      {&kQ5_1Format,
       {0, 2},
       [](Bytes b, std::size_t k) {
         const float product =
             half_at(b) * static_cast<float>(nibble_of_32(b + 8, k) + 16 * bits_of(b + 4, k, 1));
         return product + half_at(b + 2);
       }},
      {&kQ2_KFormat,
       {80, 82},
       [](Bytes b, std::size_t k) {
         const int q = bits_of(b + 16, (k / 128 * 32 + k % 32) * 8 + k % 128 / 32 * 2, 2);
         const float product = half_at(b + 80) * static_cast<float>(b[k / 16] & 15) * static_cast<float>(q);
         const float offset = half_at(b + 82) * static_cast<float>(b[k / 16] >> 4);
         return product - offset;
       }},
      {&kQ3_KFormat,
       {108},
       [scaled](Bytes b, std::size_t k) {
         const int low = bits_of(b + 32, (k / 128 * 32 + k % 32) * 8 + k % 128 / 32 * 2, 2);
         const int q = low - (bits_of(b, k % 32 * 8 + k / 32, 1) != 0 ? 0 : 4);
         const std::size_t group = k / 16;
         const int scale = bits_of(b + 96, group % 8 * 8 + group / 8 * 4, 4) +
                           16 * bits_of(b + 104, group % 4 * 8 + group / 4 * 2, 2);
         return scaled(half_at(b + 108), scale - 32, q);
       }},
      {&kQ4_KFormat,
       {0, 2},
       [](Bytes b, std::size_t k) {
         const int q = bits_of(b + 16, (k / 64 * 32 + k % 32) * 8 + k % 64 / 32 * 4, 4);
         const float product =
             half_at(b) * static_cast<float>(six_bits(b + 4, k / 32, false)) * static_cast<float>(q);
         const float offset = half_at(b + 2) * static_cast<float>(six_bits(b + 4, k / 32, true));
         return product - offset;
       }},
      {&kQ5_KFormat,
       {0, 2},
       [](Bytes b, std::size_t k) {
         const int low = bits_of(b + 48, (k / 64 * 32 + k % 32) * 8 + k % 64 / 32 * 4, 4);
         const int q = low + 16 * bits_of(b + 16, k % 32 * 8 + k / 32, 1);
         const float product =
             half_at(b) * static_cast<float>(six_bits(b + 4, k / 32, false)) * static_cast<float>(q);
         const float offset = half_at(b + 2) * static_cast<float>(six_bits(b + 4, k / 32, true));
         return product - offset;
       }},
      {&kQ6_KFormat,
       {208},
       [scaled](Bytes b, std::size_t k) {
         const std::size_t half = k / 128;
         const int low = bits_of(b, (half * 64 + k % 64) * 8 + k % 128 / 64 * 4, 4);
         const int high = bits_of(b + 128, (half * 32 + k % 32) * 8 + k % 128 / 32 * 2, 2);
         return scaled(half_at(b + 208), static_cast<std::int8_t>(b[192 + k / 16]), low + 16 * high - 32);
       }},
      {&kIQ4_NLFormat,
       {0},
       [](Bytes b, std::size_t k) {
         return half_at(b) * static_cast<float>(kNaiveNonLinear[nibble_of_32(b + 2, k)]);
       }},
      {&kIQ4_XSFormat,
       {0},
       [scaled](Bytes b, std::size_t k) {
         const std::size_t group = k / 32;
         const int scale = bits_of(b + 4, 4 * group, 4) + 16 * bits_of(b + 2, 2 * group, 2) - 32;
         return scaled(half_at(b), scale, kNaiveNonLinear[nibble_of_32(b + 8 + group * 16, k % 32)]);
       }},
      {&kMXFP4Format,
       {},
       [](Bytes b, std::size_t k) {
         const int code = nibble_of_32(b + 1, k);
         const float magnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
         const float value = std::ldexp(magnitudes[code & 7], b[0] - 127);
         return (code & 8) != 0 ? 0.0F - value : value;
       }},
  };
  return all;
}

inline const NaiveQuant* naive_quant(const WeightFormat& format) {
  for (const NaiveQuant& quant : naive_quants()) {
    if (quant.format == &format) return &quant;
  }
  return nullptr;
}

struct QuantWeight {
  std::vector<std::uint8_t> bytes;
  std::vector<float> values;  // [rows, columns]
  WeightView view;

  /// Random bytes; block scales are between 2^-10 and 2^-6 in magnitude.
  QuantWeight(Random& random, const NaiveQuant& quant, std::size_t rows, std::size_t columns)
      : bytes(rows * columns / quant.format->block_size * quant.format->block_bytes) {
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.size(0, 255));
    for (std::size_t at = 0; at < bytes.size(); at += quant.format->block_bytes) {
      for (const std::size_t half : quant.halves) {
        const std::size_t magnitude = random.size(0x1400, 0x23ff);
        set_half(at + half, magnitude | (random.coin() ? 0x8000 : 0));
      }
      if (quant.halves.empty()) bytes[at] = static_cast<std::uint8_t>(random.size(117, 121));
    }
    view = {.format = quant.format, .rows = rows, .columns = columns, .data = bytes.data()};
    read(quant);
  }
  QuantWeight(const QuantWeight&) = delete;

  void set_half(std::size_t at, std::size_t bits) {
    bytes[at] = static_cast<std::uint8_t>(bits & 255);
    bytes[at + 1] = static_cast<std::uint8_t>(bits >> 8);
  }
  /// Recomputes the values after bytes were changed.
  void read(const NaiveQuant& quant) {
    const std::size_t size = quant.format->block_size;
    values.resize(bytes.size() / quant.format->block_bytes * size);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = quant.value(bytes.data() + i / size * quant.format->block_bytes, i % size);
    }
  }
};

}  // namespace reprise::gpu::test
