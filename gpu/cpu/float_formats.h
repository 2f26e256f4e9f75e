// F32, F16 and BF16 as Readers (widened_product.h). Included by the kernel sources, with internal linkage.

#pragma once

#include "gpu/cpu/lanes.h"
#include "gpu/weight.h"

namespace reprise::gpu {
namespace {

template <class Element, Lanes (*kLoad)(const Element*)>
struct FloatReader {
  using Row = const Element*;

  static Row row(const WeightView& w, std::size_t n) {
    return static_cast<const Element*>(w.data) + n * w.columns;
  }
  static Lanes load(Row row, std::size_t k) { return kLoad(row + k); }
  static Lanes load_some(Row row, std::size_t k, std::size_t count) {
    Element padded[8] = {};
    std::memcpy(padded, row + k, count * sizeof(Element));
    return kLoad(padded);
  }
};

using F32Reader = FloatReader<float, Lanes::load>;
using F16Reader = FloatReader<std::uint16_t, Lanes::load_f16>;
using BF16Reader = FloatReader<std::uint16_t, Lanes::load_bf16>;

}  // namespace
}  // namespace reprise::gpu
