// VDPBF16PS. Compiled with -mavx512f -mavx512bf16.

#include <immintrin.h>

#include "tools/lab/bench_limits/peak.h"

namespace reprise::tools {
namespace {

template <std::size_t kCount>
float run_avx512_bf16(std::size_t turns) {
  const __m512bh a = (__m512bh)_mm512_load_si512(kBf16s);
  return _mm512_cvtss_f32(run_chains<kCount>(
      turns, _mm512_set1_ps(1.0F), [&](__m512 sum) { return _mm512_dpbf16_ps(sum, a, a); },
      [](__m512 x, __m512 y) { return _mm512_add_ps(x, y); }));
}

}  // namespace

std::vector<Peak> avx512_bf16_peaks() {
  return peaks_of<8, 12, 16, 20, 24>("AVX-512 VDPBF16PS", "bf16", 64.0,
                                     []<std::size_t kCount>() { return run_avx512_bf16<kCount>; });
}

}  // namespace reprise::tools
