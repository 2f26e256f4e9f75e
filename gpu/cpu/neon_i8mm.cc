// The matrix products of ARMv8.6, for processors with FEAT_I8MM and FEAT_BF16: quantised weights with SMMLA, or SDOT for a
// row or a few of x; bf16 and FP8 with BFMMLA. Compiled with -march=armv8.2-a+dotprod+i8mm+bf16.

#include "gpu/cpu/formats.h"
#include "gpu/cpu/neon_bf16_panels.h"
#include "gpu/cpu/neon_dot_product.h"
#include "gpu/cpu/neon_f8_product.h"
#include "gpu/cpu/neon_few_rows.h"
#include "gpu/cpu/neon_matrix_product.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {
namespace {

/// The product that is fastest for m rows, as measured on a Neoverse V1. The bits are the same.
template <class Quant>
MultiplyRows multiply_for(std::size_t m) {
  if (m == 1) return dot_multiply<Quant>;
  // From nine rows on panels pay where a block has one group, and where groups of 16 have twice the scales to apply.
  constexpr std::size_t kFew = kHasGroupScales<Quant> && Quant::kGroup == 32 ? 16 : 8;
  return m <= kFew ? few_rows_multiply<Quant> : matrix_multiply<Quant>;
}

template <class Quant>
void dot_or_matrix_multiply(RowList listed, std::size_t m, const WeightView& w, float* y,
                            std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  multiply_for<Quant>(m)(listed, m, w, y, y_stride, n_begin, n_end);
}

template <class Quant>
constexpr Product dot_or_matrix_product() {
  return product_of_whole_numbers<Quant, dot_or_matrix_multiply<Quant>>();
}

constexpr auto kMatrixProducts =
    with_more(products_of_quants([]<class Quant>() constexpr { return dot_or_matrix_product<Quant>(); }),
              FastProduct{&kInt4Format, dot_or_matrix_product<Int4>()},
              FastProduct{&kF8TileFormat, f8_product<kF8TileFormat>()},
              FastProduct{&kF8RowFormat, f8_product<kF8RowFormat>()},
              FastProduct{&kBF16Format, {.activations = &kTwoBf16<8>, .multiply = multiply_bf16}});

}  // namespace

constinit const std::span<const FastProduct> kNeonI8mmProducts = kMatrixProducts;

}  // namespace reprise::gpu
