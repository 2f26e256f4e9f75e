// The formats that every instruction set computes with: a line for each. Included by the kernel sources, with
// internal linkage; each of them compiles the list for itself, and may put a faster product into it.

#pragma once

#include <array>

#include "gpu/cpu/f8_format.h"
#include "gpu/cpu/float_formats.h"
#include "gpu/cpu/int4_format.h"
#include "gpu/cpu/widened_product.h"

namespace reprise::gpu {
namespace {

constexpr auto kFormats = std::to_array<FormatKernels>({
    widened_format<F32Reader>(kF32Format),
    widened_format<F16Reader>(kF16Format),
    widened_format<BF16Reader>(kBF16Format),
    widened_format<F8TileReader>(kF8TileFormat),
    widened_format<F8RowReader>(kF8RowFormat),
    widened_format<Int4Reader>(kInt4Format),
});

/// `formats` with another product for one of them where speed counts.
template <std::size_t kCount>
constexpr std::array<FormatKernels, kCount> with_fast(std::array<FormatKernels, kCount> formats,
                                                      const WeightFormat& format, const Product& fast) {
  for (FormatKernels& row : formats) {
    if (row.format == &format) row.fast = fast;
  }
  return formats;
}

}  // namespace
}  // namespace reprise::gpu
