#pragma once
// The exports of the kernel sources: whole tables, and faster products by which one instruction set extends
// the table of another. cpu_kernels() (gpu/kernels.h) combines them.

#include <span>

#include "gpu/kernels.h"

namespace reprise::gpu {

/// Replaces `fast` of a format in the table that it extends.
struct FastProduct {
  const WeightFormat* format;
  Product product;
};

extern const Kernels kPlainKernels;
#if defined(__aarch64__)
extern const Kernels kNeonKernels;
// Both extend kNeonKernels.
extern const std::span<const FastProduct> kNeonDotprodProducts;  // FEAT_DotProd
extern const std::span<const FastProduct> kNeonI8mmProducts;     // FEAT_DotProd, FEAT_I8MM and FEAT_BF16
#elif defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const std::span<const FastProduct> kAvx2VnniProducts;  // extends kAvx2Kernels: AVX-VNNI
extern const Kernels kAvx512Kernels;
extern const std::span<const FastProduct> kAvx512VnniProducts;  // extends kAvx512Kernels: AVX512_VNNI
extern const std::span<const FastProduct> kAvx512AmxProducts;   // extends the AVX512_VNNI table: AMX
#endif

}  // namespace reprise::gpu
