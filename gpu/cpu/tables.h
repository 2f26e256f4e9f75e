#pragma once
// What the kernel sources export, those that this build has: whole tables, and the products that an instruction set has
// beside those of another, whose other kernels it shares. Use gpu/kernels.h's cpu_kernels(), which puts them together.

#include <span>

#include "gpu/kernels.h"

namespace reprise::gpu {

/// A faster product of a format than the table has that it is put into.
struct FastProduct {
  const WeightFormat* format;
  Product product;
};

extern const Kernels kPlainKernels;
#if defined(__aarch64__)
extern const Kernels kNeonKernels;
// Beside kNeonKernels:
extern const std::span<const FastProduct> kNeonDotprodProducts;  // for processors with FEAT_DotProd
extern const std::span<const FastProduct> kNeonI8mmProducts;     // with FEAT_I8MM and FEAT_BF16 as well
#elif defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const std::span<const FastProduct> kAvx2VnniProducts;  // beside those, for processors with AVX-VNNI
extern const Kernels kAvx512Kernels;
extern const std::span<const FastProduct> kAvx512VnniProducts;  // beside those, with AVX512_VNNI
extern const std::span<const FastProduct> kAvx512AmxProducts;   // beside those and these, where there is AMX
#endif

}  // namespace reprise::gpu
