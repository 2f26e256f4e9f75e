// The kernels on AArch64's vectors with FEAT_DotProd: quantised weights with SDOT. Compiled with
// -march=armv8.2-a+dotprod.

#include "gpu/cpu/neon_dot_product.h"
#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {
namespace {

constexpr auto kFormatsWithDots =
    with_fast(with_each_quant(
                  kFormats, []<class Quant>() constexpr { return dot_product<Quant>(); }),
              kInt4Format, dot_product<Int4>());

}  // namespace

constinit const Kernels kNeonDotprodKernels = make_table(Isa::kNeonDotprod, kFormatsWithDots);

}  // namespace reprise::gpu
