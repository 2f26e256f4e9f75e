// INT4, as AWQ, GPTQ and compressed-tensors have it, as a Quant (quant.h): blocks of 32 elements of 4 bits with a scale
// and a zero point. Included by the kernel sources, with internal linkage.

#pragma once

#include "gpu/cpu/block32_quants.h"

namespace reprise::gpu {
namespace {

struct Int4 : OneGroup {
  using Block = Int4Block;
  static constexpr const WeightFormat& kFormat = kInt4Format;
  static constexpr bool kHasOffsets = false;
  static float scale(const Block& block) { return block.scale(); }
  static void eight(const Block& block, std::size_t k, std::int8_t* q) {
    const int zero = block.zero();
    for (std::size_t i = 0; i < 8; ++i) {
      const int pair = block.elements[(k + i) / 2];
      q[i] = static_cast<std::int8_t>((i % 2 == 0 ? pair & 15 : pair >> 4) - zero);
    }
  }
};

}  // namespace
}  // namespace reprise::gpu
