// What a quantised format is: whole numbers with scales, and the Reader (widened_product.h) that every such format has
// from that. Included by the kernel sources, with internal linkage.
//
// A row is blocks; the elements of a block lie in groups. An element k of a block, in group g = k / kGroup, is
//   w = (scale * group_scale(g)) * q + offset * group_offset(g)
// in f32, each operation rounded, where q, group_scale and group_offset are whole numbers. A Quant says it of one
// format:
//   Block                       the bytes, as files have them
//   kFormat                     its WeightFormat
//   kGroup                      elements of a group: 16 or 32. kFormat.block_size of them are one group if the format
//                               has no scales of groups
//   kHasOffsets                 false: offset and group_offset are absent, and their term
//   scale(block)                f32
//   offset(block)               f32
//   group_scale(block, g)       from -128 to 127; 1 where there are none
//   group_offset(block, g)      from 0 to 63; 1 where there are none
//   eight(block, k, q)          q of elements k ... k + 7 as int8; k a multiple of 8
//
// The products of whole numbers (int8_product.h) use the same numbers.

#pragma once

#include <cstring>

#include "gpu/cpu/lanes.h"
#include "gpu/weight.h"

namespace reprise::gpu {
namespace {

/// Whether a Quant's blocks are what its format says.
template <class Quant>
inline constexpr bool kIsQuant =
    sizeof(typename Quant::Block) == Quant::kFormat.block_bytes &&
    alignof(typename Quant::Block) == Quant::kFormat.alignment&& Quant::kFormat.block_size % Quant::kGroup ==
        0;

template <class Quant>
struct QuantReader {
  static_assert(kIsQuant<Quant>);
  static constexpr std::size_t kElements = Quant::kFormat.block_size;
  using Row = const typename Quant::Block*;

  static Row row(const WeightView& w, std::size_t n) { return reinterpret_cast<Row>(w.row(n)); }

  static Lanes load(Row row, std::size_t k) {
    const typename Quant::Block& block = row[k / kElements];
    const std::size_t inside = k % kElements;
    const std::size_t group = inside / Quant::kGroup;
    std::int8_t q[8];
    Quant::eight(block, inside, q);
    float whole[8];
    for (int i = 0; i < 8; ++i) whole[i] = static_cast<float>(q[i]);
    const float scale = Quant::scale(block) * static_cast<float>(Quant::group_scale(block, group));
    const Lanes scaled = Lanes::set(scale) * Lanes::load(whole);
    if constexpr (Quant::kHasOffsets) {
      return scaled +
             Lanes::set(Quant::offset(block) * static_cast<float>(Quant::group_offset(block, group)));
    } else {
      return scaled;
    }
  }
};

/// Four bits of each of eight bytes: the low ones, or the high ones.
inline void eight_nibbles(const std::uint8_t* from, bool high, std::uint8_t* to) {
  const int shift = high ? 4 : 0;
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::uint8_t>((from[i] >> shift) & 15);
}

}  // namespace
}  // namespace reprise::gpu
