// VPDPBUSD on AVX-512 registers. Compiled with -mavx512f -mavx512vnni.

#include <immintrin.h>

#include "tools/lab/bench_limits/peak.h"

namespace reprise::tools {
namespace {

template <std::size_t kCount>
float run_avx512_vnni(std::size_t turns) {
  const __m512i a = _mm512_load_si512(kBytes);
  const __m512i all = run_chains<kCount>(
      turns, _mm512_setzero_si512(), [&](__m512i sum) { return _mm512_dpbusd_epi32(sum, a, a); },
      [](__m512i x, __m512i y) { return _mm512_add_epi32(x, y); });
  return static_cast<float>(_mm512_cvtsi512_si32(all));
}

}  // namespace

std::vector<Peak> avx512_vnni_peaks() {
  return peaks_of<8, 12, 16, 20, 24>("AVX-512 VPDPBUSD", "int8", 128.0,
                                     []<std::size_t kCount>() { return run_avx512_vnni<kCount>; });
}

}  // namespace reprise::tools
