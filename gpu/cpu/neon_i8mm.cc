// The kernels on AArch64's vectors with FEAT_I8MM and FEAT_BF16, the matrix products of ARMv8.6: quantised weights with
// SMMLA, or SDOT where rows of x are few; bf16 with BFMMLA. Compiled with -march=armv8.2-a+dotprod+i8mm+bf16.

#include "gpu/cpu/neon_bf16_product.h"
#include "gpu/cpu/neon_dot_product.h"
#include "gpu/cpu/neon_matrix_product.h"
#include "gpu/cpu/table.h"
#include "gpu/cpu/tables.h"

namespace reprise::gpu {
namespace {

/// Up to so many rows are multiplied from the file's blocks, as measured on a Neoverse V1. The bits are the same.
template <class Quant>
inline constexpr std::size_t kFewRows = Quant::kFormat.block_size == 32 ? 4 : 3;

template <class Quant>
void dot_or_matrix_multiply(const void* activations, std::size_t m, const WeightView& w, float* y,
                            std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  const auto multiply = m <= kFewRows<Quant> ? dot_multiply<Quant> : matrix_multiply<Quant>;
  multiply(activations, m, w, y, y_stride, n_begin, n_end);
}

constexpr auto kFormatsWithMatrices =
    with_fast(with_each_quant(
                  kFormats, []<class Quant>() constexpr {
                    return product_of_whole_numbers<Quant, dot_or_matrix_multiply<Quant>>();
                  }),
              kBF16Format, {.activations = &kTwoBf16<8>, .multiply = multiply_bf16});

}  // namespace

constinit const Kernels kNeonI8mmKernels = make_table(Isa::kNeon, kFormatsWithMatrices);

}  // namespace reprise::gpu
