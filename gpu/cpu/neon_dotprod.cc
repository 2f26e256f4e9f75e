// The products of quantised weights with SDOT, for processors with FEAT_DotProd. Compiled with -march=armv8.2-a+dotprod.

#include "gpu/cpu/formats.h"
#include "gpu/cpu/neon_dot_product.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {
namespace {

constexpr auto kDotProducts =
    with_more(products_of_quants([]<class Quant>() constexpr { return dot_product<Quant>(); }),
              FastProduct{&kInt4Format, dot_product<Int4>()});

}  // namespace

constinit const std::span<const FastProduct> kNeonDotprodProducts = kDotProducts;

}  // namespace reprise::gpu
