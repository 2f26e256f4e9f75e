// The kernels on AVX2 with FMA and F16C; compiled with those flags.

#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {

constinit const Kernels kAvx2Kernels = make_table(Isa::kAvx2, kFormats);

}  // namespace reprise::gpu
