// VFMADD on AVX-512 registers. Compiled with -mavx512f.

#include <immintrin.h>

#include "tools/lab/bench_limits/peak.h"

namespace reprise::tools {
namespace {

template <std::size_t kCount>
float run_avx512_fma(std::size_t turns) {
  const __m512 a = _mm512_load_ps(kFloats);
  return _mm512_cvtss_f32(run_chains<kCount>(
      turns, _mm512_set1_ps(1.0F), [&](__m512 sum) { return _mm512_fmadd_ps(a, a, sum); },
      [](__m512 x, __m512 y) { return _mm512_add_ps(x, y); }));
}

}  // namespace

std::vector<Peak> avx512_fma_peaks() {
  return peaks_of<8, 12, 16, 20, 24>("AVX-512 FMA", "f32", 32.0,
                                     []<std::size_t kCount>() { return run_avx512_fma<kCount>; });
}

}  // namespace reprise::tools
