// Activations as sums of two bf16, which keep 16 bits of mantissa, for bf16 instructions with f32
// accumulators.
//
// A prepared row is a sequence of groups of kGroup elements (the depth of an instruction), each the high
// parts and then the low parts. The last group is padded with zeros.

#pragma once

#include <algorithm>

#include "gpu/cpu/lanes.h"
#include "gpu/weights/products.h"

namespace reprise::gpu {
namespace {

/// high = bf16(x), low = bf16(x - high), rounded to nearest even.
template <std::size_t kGroup>
inline void split_group(const float* x, std::uint16_t* to) {
  for (std::size_t i = 0; i < kGroup; ++i) {
    to[i] = f32_to_bf16(x[i]);
    to[kGroup + i] = f32_to_bf16(x[i] - bf16_to_f32(to[i]));
  }
}

template <std::size_t kGroup>
void split_rows(const float* x, std::size_t rows, std::size_t columns, std::byte* to) {
  auto* parts = reinterpret_cast<std::uint16_t*>(to);
  for (std::size_t row = 0; row < rows; ++row, x += columns) {
    std::size_t k = 0;
    for (; k + kGroup <= columns; k += kGroup, parts += 2 * kGroup) split_group<kGroup>(x + k, parts);
    if (k == columns) continue;
    float padded[kGroup] = {};
    std::copy(x + k, x + columns, padded);
    split_group<kGroup>(padded, parts);
    parts += 2 * kGroup;
  }
}

template <std::size_t kGroup>
struct TwoBf16 {
  const std::uint16_t* rows;
  std::size_t stride;  // bf16 elements between rows, counting both parts

  static constexpr std::size_t stride_of(std::size_t columns) {
    return 2 * ((columns + kGroup - 1) / kGroup * kGroup);
  }

  TwoBf16(const void* prepared, std::size_t columns)
      : rows(static_cast<const std::uint16_t*>(prepared)), stride(stride_of(columns)) {}

  const std::uint16_t* row(std::size_t index) const { return rows + index * stride; }
  TwoBf16 from(std::size_t index) const {
    TwoBf16 out = *this;
    out.rows = row(index);
    return out;
  }
};

template <std::size_t kGroup>
constexpr ActivationForm kTwoBf16{
    .row_bytes =
        [](std::size_t columns) { return TwoBf16<kGroup>::stride_of(columns) * sizeof(std::uint16_t); },
    .prepare = split_rows<kGroup>};

}  // namespace
}  // namespace reprise::gpu
