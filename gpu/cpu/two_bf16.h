// Activations as sums of two bf16, which keeps 16 bits of each, for products of bf16 with f32 sums. Included by
// the kernel sources that have such products, with internal linkage.
//
// A prepared row is its high parts, then its low ones: [2, columns].

#pragma once

#include "gpu/cpu/lanes.h"
#include "gpu/products.h"

namespace reprise::gpu {
namespace {

/// high = bf16(x), low = bf16(x - high); rounded to nearest even.
void split_bf16(const float* x, std::size_t rows, std::size_t columns, std::byte* to) {
  auto* high = reinterpret_cast<std::uint16_t*>(to);
  for (std::size_t row = 0; row < rows; ++row, x += columns, high += 2 * columns) {
    std::uint16_t* low = high + columns;
    for (std::size_t i = 0; i < columns; ++i) {
      high[i] = f32_to_bf16(x[i]);
      low[i] = f32_to_bf16(x[i] - bf16_to_f32(high[i]));
    }
  }
}

constexpr ActivationForm kTwoBf16{
    .row_bytes = [](std::size_t columns) { return 2 * columns * sizeof(std::uint16_t); },
    .prepare = split_bf16};

/// Rows of activations in this form.
struct TwoBf16 {
  const std::uint16_t* rows;
  std::size_t depth;

  const std::uint16_t* high(std::size_t row) const { return rows + 2 * row * depth; }
  const std::uint16_t* low(std::size_t row) const { return high(row) + depth; }
  TwoBf16 from(std::size_t row) const { return {high(row), depth}; }
};

}  // namespace
}  // namespace reprise::gpu
