// The kernels on AArch64's vectors.

#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {

constinit const Kernels kNeonKernels = make_table(Isa::kNeon, kFormats);

}  // namespace reprise::gpu
