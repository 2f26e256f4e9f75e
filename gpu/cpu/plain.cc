// The kernels as portable loops: the specification that the others are tested against.

#define REPRISE_LANES_PLAIN 1
#include "gpu/cpu/tables.h"

#include "gpu/cpu/table.h"

namespace reprise::gpu {

const Kernels kPlainKernels = make_table(Isa::kPlain, nullptr);

}  // namespace reprise::gpu
