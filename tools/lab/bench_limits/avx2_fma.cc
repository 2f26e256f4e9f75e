// VFMADD on AVX2 registers. Compiled with -mavx2 -mfma.

#include <immintrin.h>

#include "tools/lab/bench_limits/peak.h"

namespace reprise::tools {
namespace {

template <std::size_t kCount>
float run_avx2_fma(std::size_t turns) {
  const __m256 a = _mm256_load_ps(kFloats);
  const __m256 b = _mm256_load_ps(kFloats + 8);
  return _mm256_cvtss_f32(run_chains<kCount>(
      turns, _mm256_set1_ps(1.0F), [&](__m256 sum) { return _mm256_fmadd_ps(a, b, sum); },
      [](__m256 x, __m256 y) { return _mm256_add_ps(x, y); }));
}

}  // namespace

std::vector<Peak> avx2_fma_peaks() {
  return peaks_of<8, 10, 12>("AVX2 FMA", "f32", 16.0,
                             []<std::size_t kCount>() { return run_avx2_fma<kCount>; });
}

}  // namespace reprise::tools
