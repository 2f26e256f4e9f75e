// The kernel table of portable loops: the specification that tests compare the other tables with.

#define REPRISE_LANES_PLAIN 1
#include "gpu/cpu/tables.h"

#include "gpu/cpu/table.h"

namespace reprise::gpu {

constinit const Kernels kPlainKernels = make_table(Isa::kPlain, kFormats);

}  // namespace reprise::gpu
