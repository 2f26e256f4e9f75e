// FP8 e4m3 with f32 scales apart, as Readers (widened_product.h): one scale for each tile of 128 x 128 elements, or
// for each row. Included by the kernel sources, with internal linkage.
//
// e4m3 has a sign, four bits of exponent and three of mantissa. Shifted into the places of an f16 the same bits
// stand for a value 2^8 smaller, subnormal ones too: so an element is widened without a table, and exactly.

#pragma once

#include <cstring>

#include "gpu/cpu/lanes.h"
#include "gpu/kernels.h"
#include "gpu/weight.h"

namespace reprise::gpu {
namespace {

template <std::size_t kTileColumns>
struct F8Reader {
  struct Row {
    const std::uint8_t* elements;
    const float* scales;
  };

  static Row row(const WeightView& w, std::size_t n) {
    return {reinterpret_cast<const std::uint8_t*>(w.row(n)), reinterpret_cast<const float*>(w.scale_row(n))};
  }
  static Lanes load(const Row& row, std::size_t k) {
    return widened(row.elements + k) * Lanes::set(row.scales[k / kTileColumns]);
  }
  static Lanes load_some(const Row& row, std::size_t k, std::size_t count) {
    std::uint8_t padded[kLanes] = {};
    std::memcpy(padded, row.elements + k, count);
    return widened(padded) * Lanes::set(row.scales[k / kTileColumns]);
  }

 private:
  static Lanes widened(const std::uint8_t* elements) {
    std::uint16_t halves[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) {
      const std::uint32_t bits = elements[i];
      halves[i] = static_cast<std::uint16_t>((bits & 0x80U) << 8 | (bits & 0x7fU) << 7);
    }
    return Lanes::load_f16(halves) * Lanes::set(0x1p8F);
  }
};

using F8TileReader = F8Reader<kF8TileFormat.scales.columns>;
using F8RowReader = F8Reader<kF8RowFormat.scales.columns>;

}  // namespace
}  // namespace reprise::gpu
