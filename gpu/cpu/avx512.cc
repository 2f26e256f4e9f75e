// The kernels on AVX-512: elementwise ones and exact products with the eight lanes that fix their bits, fast products
// with sixteen. Compiled with -mavx512f -mavx512bw -mavx512vl.
//
// There is no product with VDPBF16PS (AVX512_BF16): activations would be sums of two bf16, two instructions for what
// one fused multiply-add does once the weight is widened. On a Sapphire Rapids that was a third of the speed; it also
// takes denormals for zeros. AMX is worth it (amx_bf16.cc).

#include "gpu/cpu/int8_panels.h"
#include "gpu/cpu/panel_product.h"
#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {

namespace {

#ifdef REPRISE_ONLY_A_BASE  // of a set with faster products of bytes, the only one in this build that is asked for
constexpr auto kAvx512Formats = with_panels(kFormats);
#else
constexpr auto kAvx512Formats = with_products(with_panels(kFormats), products_by_bytes());
#endif

}  // namespace

constinit const Kernels kAvx512Kernels = make_table(Isa::kAvx512, kAvx512Formats);

}  // namespace reprise::gpu
