// Which instructions this processor has.

#include "gpu/compute.h"
#include "tools/lab/bench_limits/peak.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace reprise::tools {
namespace {

#if defined(__x86_64__)
bool has_avx512_bf16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & 1U << 5) != 0;
}
#endif

}  // namespace

std::vector<Peak> peaks() {
  std::vector<Peak> found;
  const auto add = [&](const std::vector<Peak>& more) {
    found.insert(found.end(), more.begin(), more.end());
  };
#if defined(__aarch64__)
  add(neon_fma_peaks());
  if (gpu::is_available(gpu::Isa::kNeonDotprod)) add(neon_dot_peaks());
  if (gpu::is_available(gpu::Isa::kNeonI8mm)) add(neon_matrix_peaks());
#elif defined(__x86_64__)
  if (gpu::is_available(gpu::Isa::kAvx2)) add(avx2_fma_peaks());
  if (gpu::is_available(gpu::Isa::kAvx2Vnni)) add(avx_vnni_peaks());
  if (gpu::is_available(gpu::Isa::kAvx512)) add(avx512_fma_peaks());
  if (gpu::is_available(gpu::Isa::kAvx512Vnni)) add(avx512_vnni_peaks());
  if (gpu::is_available(gpu::Isa::kAvx512) && has_avx512_bf16()) add(avx512_bf16_peaks());
  if (gpu::is_available(gpu::Isa::kAvx512Amx)) {
    add(amx_bf16_peaks());
    add(amx_int8_peaks());
  }
#endif
  return found;
}

}  // namespace reprise::tools
