#pragma once
// The tables that the kernel sources export, those that this build has. Use gpu/kernels.h's cpu_kernels(); tests and
// benchmarks take them one by one.

#include <string_view>
#include <vector>

#include "gpu/kernels.h"

namespace reprise::gpu {

extern const Kernels kPlainKernels;
#if defined(__aarch64__)
extern const Kernels kNeonKernels;
extern const Kernels kNeonDotprodKernels;  // for processors with FEAT_DotProd
extern const Kernels kNeonI8mmKernels;     // for processors with FEAT_I8MM and FEAT_BF16 as well
#elif defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx2VnniKernels;  // for processors with AVX-VNNI
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512VnniKernels;  // for processors with AVX512_VNNI
extern const Kernels kAvx512AmxKernels;   // for processors and systems with AMX
#endif

struct NamedTable {
  std::string_view name;  // "avx512 vnni"
  const Kernels* kernels;
};

/// Every table that this processor can run. Of two with the same instruction set the later is what cpu_kernels() gives.
std::vector<NamedTable> runnable_tables();

}  // namespace reprise::gpu
