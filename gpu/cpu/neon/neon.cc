// The kernel table for AArch64 NEON.

#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {

constinit const Kernels kNeonKernels = make_table(Isa::kNeon, kFormats);

}  // namespace reprise::gpu
