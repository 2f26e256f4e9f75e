// SDOT (FEAT_DotProd). Compiled with -march=armv8.2-a+dotprod.

#include <arm_neon.h>

#include "tools/lab/bench_limits/peak.h"

namespace reprise::tools {
namespace {

template <std::size_t kCount>
float run_neon_dot(std::size_t turns) {
  const int8x16_t a = vld1q_s8(kBytes);
  const int8x16_t b = vld1q_s8(kBytes + 16);
  return static_cast<float>(vaddvq_s32(run_chains<kCount>(
      turns, vdupq_n_s32(0), [&](int32x4_t sum) { return vdotq_s32(sum, a, b); },
      [](int32x4_t x, int32x4_t y) { return vaddq_s32(x, y); })));
}

}  // namespace

std::vector<Peak> neon_dot_peaks() {
  return peaks_of<8, 12, 16, 20, 24>("NEON SDOT", "int8", 32.0,
                                     []<std::size_t kCount>() { return run_neon_dot<kCount>; });
}

}  // namespace reprise::tools
