// The products of quantised weights with SDOT, for processors with FEAT_DotProd. Compiled with -march=armv8.2-a+dotprod.

#include "gpu/cpu/formats.h"
#include "gpu/cpu/neon_dot_few_rows.h"
#include "gpu/cpu/neon_dot_panels.h"
#include "gpu/cpu/neon_dot_product.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {
namespace {

/// What is fastest for m rows, as measured on a Neoverse N1. The bits are the same.
template <class Quant>
void multiply_by_dots(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                      std::size_t n_begin, std::size_t n_end) {
  if constexpr (kHasGroupScales<Quant>) {
    // Panels with twice the scales take longer to fill.
    constexpr std::size_t kMost = Quant::kGroup == 16 ? 12 : 8;
    if (m > 1 && m <= kMost) {
      return dot_few_multiply<Quant>(listed, m, w, y, y_stride, n_begin, n_end);
    }
  }
  constexpr std::size_t kFew = kIsLarge<Quant> ? 8 : 4;  // what is not smaller in a file needs no unpacking
  const MultiplyRows multiply = m <= kFew ? dot_multiply<Quant> : dot_panels_multiply<Quant>;
  multiply(listed, m, w, y, y_stride, n_begin, n_end);
}

constexpr auto kDotProducts =
    with_more(products_of_quants([]<class Quant>() constexpr {
                return product_of_whole_numbers<Quant, multiply_by_dots<Quant>>();
              }),
              FastProduct{&kInt4Format, product_of_whole_numbers<Int4, multiply_by_dots<Int4>>()});

}  // namespace

constinit const std::span<const FastProduct> kNeonDotprodProducts = kDotProducts;

}  // namespace reprise::gpu
