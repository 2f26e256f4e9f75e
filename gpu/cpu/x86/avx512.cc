// The kernel table for AVX-512: elementwise kernels and exact GEMMs use eight lanes, which fix their bits;
// fast GEMMs use sixteen. Compiled with -mavx512f -mavx512bw -mavx512vl.
//
// VDPBF16PS (AVX512_BF16) is not used: activations as sums of two bf16 need two instructions where one fused
// multiply-add does after widening the weight, a third of the speed on a Sapphire Rapids, and it flushes
// denormals.

#include "gpu/cpu/formats/int8_panels.h"
#include "gpu/cpu/formats/panel_product.h"
#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {

namespace {

#ifdef REPRISE_ONLY_A_BASE  // the build uses this table only as the base of one with faster int8 products
constexpr auto kAvx512Formats = with_panels(kFormats);
#else
constexpr auto kAvx512Formats = with_products(with_panels(kFormats), products_by_bytes());
#endif

}  // namespace

constinit const Kernels kAvx512Kernels = make_table(Isa::kAvx512, kAvx512Formats);

}  // namespace reprise::gpu
