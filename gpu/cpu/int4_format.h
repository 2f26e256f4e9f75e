// INT4, as AWQ, GPTQ and compressed-tensors have it, as a Reader (widened_product.h): blocks of 32 elements of 4 bits
// with a scale and a zero point. Included by the kernel sources, with internal linkage.

#pragma once

#include "gpu/cpu/lanes.h"
#include "gpu/weight.h"

namespace reprise::gpu {
namespace {

struct Int4Reader {
  using Row = const Int4Block*;

  static Row row(const WeightView& w, std::size_t n) { return reinterpret_cast<Row>(w.row(n)); }
  static Lanes load(Row row, std::size_t k) {
    const Int4Block& block = row[k / 32];
    const std::uint8_t* pairs = block.elements + k % 32 / 2;
    const int zero = block.zero();
    float eight[kLanes];
    for (std::size_t i = 0; i < kLanes / 2; ++i) {
      eight[2 * i] = static_cast<float>((pairs[i] & 15) - zero);
      eight[2 * i + 1] = static_cast<float>((pairs[i] >> 4) - zero);
    }
    return Lanes::load(eight) * Lanes::set(block.scale());
  }
};

}  // namespace
}  // namespace reprise::gpu
