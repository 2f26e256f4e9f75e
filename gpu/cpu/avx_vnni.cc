// The kernels on AVX2 where it has products of bytes (AVX-VNNI); compiled with -mavxvnni.

#include "gpu/cpu/int8_panels.h"
#include "gpu/cpu/panel_product.h"
#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {

namespace {

constexpr auto kAvxVnniFormats = with_bytes(with_panels(kFormats));

}  // namespace

constinit const Kernels kAvx2VnniKernels = make_table(Isa::kAvx2Vnni, kAvxVnniFormats);

}  // namespace reprise::gpu
