// The kernel table for AVX2 with FMA and F16C; compiled with those flags.

#include "gpu/cpu/formats/int8_panels.h"
#include "gpu/cpu/formats/panel_product.h"
#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {

namespace {

#ifdef REPRISE_ONLY_A_BASE  // the build uses this table only as the base of one with faster int8 products
constexpr auto kAvx2Formats = with_panels(kFormats);
#else
constexpr auto kAvx2Formats = with_products(with_panels(kFormats), products_by_bytes());
#endif

}  // namespace

constinit const Kernels kAvx2Kernels = make_table(Isa::kAvx2, kAvx2Formats);

}  // namespace reprise::gpu
