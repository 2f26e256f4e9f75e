// VPDPBUSD on AVX2 registers (AVX-VNNI). Compiled with -mavx2 -mavxvnni.

#include <immintrin.h>

#include "tools/lab/bench_limits/peak.h"

namespace reprise::tools {
namespace {

template <std::size_t kCount>
float run_avx_vnni(std::size_t turns) {
  const __m256i a = _mm256_load_si256(reinterpret_cast<const __m256i*>(kBytes));
  const __m256i b = _mm256_load_si256(reinterpret_cast<const __m256i*>(kBytes + 32));
  const __m256i all = run_chains<kCount>(
      turns, _mm256_setzero_si256(), [&](__m256i sum) { return _mm256_dpbusd_avx_epi32(sum, a, b); },
      [](__m256i x, __m256i y) { return _mm256_add_epi32(x, y); });
  return static_cast<float>(_mm256_cvtsi256_si32(all));
}

}  // namespace

std::vector<Peak> avx_vnni_peaks() {
  return peaks_of<8, 10, 12>("AVX-VNNI VPDPBUSD", "int8", 64.0,
                             []<std::size_t kCount>() { return run_avx_vnni<kCount>; });
}

}  // namespace reprise::tools
