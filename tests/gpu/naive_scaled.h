#pragma once
// Reference implementation of quantized formats in safetensors files, element by element from their
// description: FP8 with separate scales, and INT4. Also random weights in them.

#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {

/// Value of FP8 e4m3: sign, 4 bits of exponent with bias 7, 3 of mantissa; subnormal if the exponent is 0.
inline float from_e4m3(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const int mantissa = bits & 7;
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return static_cast<float>((bits & 0x80) != 0 ? -size : size);
}

struct ScaledWeight {
  std::vector<std::uint8_t> elements;
  std::vector<float> scales;
  std::vector<Int4Block> blocks;
  std::vector<float> values;  // [rows, columns]
  WeightView view;

  static bool knows(const WeightFormat& format) {
    return &format == &kF8TileFormat || &format == &kF8RowFormat || &format == &kInt4Format;
  }

  ScaledWeight(Random& random, const WeightFormat& format, std::size_t rows, std::size_t columns)
      : values(rows * columns), view{.format = &format, .rows = rows, .columns = columns, .data = nullptr} {
    if (&format == &kInt4Format) {
      make_int4(random);
    } else {
      make_f8(random);
    }
  }
  ScaledWeight(const ScaledWeight&) = delete;

 private:
  void make_f8(Random& random) {
    const bool tiles = view.format == &kF8TileFormat;
    const std::size_t high = tiles ? 128 : 1;
    const std::size_t wide = tiles ? 128 : view.columns;
    const std::size_t across = (view.columns + wide - 1) / wide;
    for (std::size_t i = 0; i < (view.rows + high - 1) / high * across; ++i) {
      scales.push_back(std::ldexp(static_cast<float>(random.size(1 << 23, (1 << 24) - 1)), -32));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto element = static_cast<std::uint8_t>(random.size(0, 255));
      if ((element & 0x7f) == 0x7f) element = 0;  // would be NaN
      elements.push_back(element);
      values[i] = from_e4m3(element) * scales[i / view.columns / high * across + i % view.columns / wide];
    }
    view.data = elements.data();
    view.scales = scales.data();
  }

  void make_int4(Random& random) {
    for (std::size_t i = 0; i < values.size(); i += 32) {
      const auto zero = static_cast<std::uint32_t>(random.size(0, 16));
      const float scale = from_f16(static_cast<std::uint16_t>(random.size(0x1400, 0x23ff)));
      Int4Block& block = blocks.emplace_back();
      block.scale_and_zero = std::bit_cast<std::uint32_t>(scale) | zero;
      for (std::size_t k = 0; k < 32; ++k) {
        const auto element = static_cast<std::uint8_t>(random.size(0, 15));
        if (k % 2 == 0) {
          block.elements[k / 2] = element;
        } else {
          block.elements[k / 2] = static_cast<std::uint8_t>(block.elements[k / 2] | element << 4);
        }
        values[i + k] = static_cast<float>(static_cast<int>(element) - static_cast<int>(zero)) * scale;
      }
    }
    view.data = blocks.data();
  }
};

}  // namespace reprise::gpu::test
