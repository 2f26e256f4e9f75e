// The formats that every instruction set computes with: a line for each. Included by the kernel sources, with
// internal linkage; each of them compiles the list for itself, and may put a faster product into it.

#pragma once

#include <array>

#include "gpu/cpu/block32_quants.h"
#include "gpu/cpu/f8_format.h"
#include "gpu/cpu/float_formats.h"
#include "gpu/cpu/int4_format.h"
#include "gpu/cpu/int8_product.h"
#include "gpu/cpu/k_quants.h"
#include "gpu/cpu/lookup_quants.h"
#include "gpu/cpu/tables.h"
#include "gpu/cpu/widened_product.h"

namespace reprise::gpu {
namespace {

/// A quantised format's row, with the portable product of whole numbers as the fast one.
template <class Quant>
constexpr FormatKernels quant_format() {
  FormatKernels row = widened_format<QuantReader<Quant>>(Quant::kFormat);
  row.fast = int8_product<Quant>();
  return row;
}

constexpr auto kFormats = std::to_array<FormatKernels>({
    widened_format<F32Reader>(kF32Format),
    widened_format<F16Reader>(kF16Format),
    widened_format<BF16Reader>(kBF16Format),
    widened_format<F8TileReader>(kF8TileFormat),
    widened_format<F8RowReader>(kF8RowFormat),
    quant_format<Q8_0>(),
    quant_format<Q4_0>(),
    quant_format<Q4_1>(),
    quant_format<Q5_0>(),
    quant_format<Q5_1>(),
    quant_format<Q2_K>(),
    quant_format<Q3_K>(),
    quant_format<Q4_K>(),
    quant_format<Q5_K>(),
    quant_format<Q6_K>(),
    quant_format<IQ4_NL>(),
    quant_format<IQ4_XS>(),
    quant_format<MXFP4>(),
    quant_format<Int4>(),
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

/// A product for each quantised format: product.operator()<Quant>().
template <class MakeProduct>
constexpr auto products_of_quants(MakeProduct product) {
  const auto list = [&]<class... Quant>() constexpr {
    return std::array{FastProduct{&Quant::kFormat, product.template operator()<Quant>()}...};
  };
  return list.template
  operator()<Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4>();
}

/// `products`, and `more` of them.
template <std::size_t kCount, class... More>
constexpr std::array<FastProduct, kCount + sizeof...(More)> with_more(
    const std::array<FastProduct, kCount>& products, const More&... more) {
  std::array<FastProduct, kCount + sizeof...(More)> all{};
  std::size_t count = 0;
  for (const FastProduct& product : products) all[count++] = product;
  ((all[count++] = more), ...);
  return all;
}

/// `formats` with those products.
template <std::size_t kCount, std::size_t kProducts>
constexpr std::array<FormatKernels, kCount> with_products(
    std::array<FormatKernels, kCount> formats, const std::array<FastProduct, kProducts>& products) {
  for (const FastProduct& fast : products) formats = with_fast(formats, *fast.format, fast.product);
  return formats;
}

}  // namespace
}  // namespace reprise::gpu
