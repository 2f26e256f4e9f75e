// SMMLA and BFMMLA (FEAT_I8MM, FEAT_BF16). Compiled with -march=armv8.2-a+i8mm+bf16.

#include <arm_neon.h>

#include "tools/lab/bench_limits/peak.h"

namespace reprise::tools {
namespace {

template <std::size_t kCount>
float run_neon_smmla(std::size_t turns) {
  const int8x16_t a = vld1q_s8(kBytes);
  const int8x16_t b = vld1q_s8(kBytes + 16);
  return static_cast<float>(vaddvq_s32(run_chains<kCount>(
      turns, vdupq_n_s32(0), [&](int32x4_t sum) { return vmmlaq_s32(sum, a, b); },
      [](int32x4_t x, int32x4_t y) { return vaddq_s32(x, y); })));
}

template <std::size_t kCount>
float run_neon_bfmmla(std::size_t turns) {
  const bfloat16x8_t a = vreinterpretq_bf16_u16(vld1q_u16(kBf16s));
  const bfloat16x8_t b = vreinterpretq_bf16_u16(vld1q_u16(kBf16s + 8));
  return vaddvq_f32(run_chains<kCount>(
      turns, vdupq_n_f32(1.0F), [&](float32x4_t sum) { return vbfmmlaq_f32(sum, a, b); },
      [](float32x4_t x, float32x4_t y) { return vaddq_f32(x, y); }));
}

}  // namespace

std::vector<Peak> neon_matrix_peaks() {
  std::vector<Peak> both = peaks_of<8, 12, 16, 20, 24>(
      "NEON BFMMLA", "bf16", 32.0, []<std::size_t kCount>() { return run_neon_bfmmla<kCount>; });
  for (const Peak& peak : peaks_of<8, 12, 16, 20, 24>(
           "NEON SMMLA", "int8", 64.0, []<std::size_t kCount>() { return run_neon_smmla<kCount>; })) {
    both.push_back(peak);
  }
  return both;
}

}  // namespace reprise::tools
