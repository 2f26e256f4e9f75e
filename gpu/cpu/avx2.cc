// The kernels on AVX2 with FMA and F16C; compiled with those flags.

#include "gpu/cpu/int8_panels.h"
#include "gpu/cpu/panel_product.h"
#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {

namespace {

#ifdef REPRISE_ONLY_A_BASE  // of a set with faster products of bytes, the only one in this build that is asked for
constexpr auto kAvx2Formats = with_panels(kFormats);
#else
constexpr auto kAvx2Formats = with_products(with_panels(kFormats), products_by_bytes());
#endif

}  // namespace

constinit const Kernels kAvx2Kernels = make_table(Isa::kAvx2, kAvx2Formats);

}  // namespace reprise::gpu
