// The kernels on AArch64's vectors.

#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {

const Kernels kNeonKernels = make_table(Isa::kNeon, nullptr);

}  // namespace reprise::gpu
