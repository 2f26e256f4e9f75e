#pragma once
// The tables that the kernel sources export, those that this build has. Use gpu/kernels.h's cpu_kernels().

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

}  // namespace reprise::gpu
