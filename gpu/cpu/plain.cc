// The kernels as portable loops: the specification that the others are tested against.

#define REPRISE_LANES_PLAIN 1
#include "gpu/cpu/tables.h"

#include "gpu/cpu/table.h"

namespace reprise::gpu {

constinit const Kernels kPlainKernels = make_table(Isa::kPlain, kFormats);

}  // namespace reprise::gpu
