// FMLA on AArch64 vectors.

#include <arm_neon.h>

#include "tools/lab/bench_limits/peak.h"

namespace reprise::tools {
namespace {

template <std::size_t kCount>
float run_neon_fma(std::size_t turns) {
  const float32x4_t a = vld1q_f32(kFloats);
  const float32x4_t b = vld1q_f32(kFloats + 4);
  return vaddvq_f32(run_chains<kCount>(
      turns, vdupq_n_f32(1.0F), [&](float32x4_t sum) { return vfmaq_f32(sum, a, b); },
      [](float32x4_t x, float32x4_t y) { return vaddq_f32(x, y); }));
}

}  // namespace

std::vector<Peak> neon_fma_peaks() {
  return peaks_of<8, 12, 16, 20, 24>("NEON FMLA", "f32", 8.0,
                                     []<std::size_t kCount>() { return run_neon_fma<kCount>; });
}

}  // namespace reprise::tools
