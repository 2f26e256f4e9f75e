// Which instructions this processor has.

#include <algorithm>

#include "gpu/cpu/tables.h"
#include "tools/bench_limits/peak.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace reprise::tools {
namespace {

bool has_table(std::string_view name) {
  const std::vector<gpu::NamedTable> tables = gpu::runnable_tables();
  return std::any_of(tables.begin(), tables.end(), [&](const auto& table) { return table.name == name; });
}

#if defined(__x86_64__)
/// Beside tiles, which the table of kernels is asked for.
bool has_int8_tiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & 1U << 25) != 0;
}

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
  if (has_table("neon dotprod")) add(neon_dot_peaks());
  if (has_table("neon i8mm")) add(neon_matrix_peaks());
#elif defined(__x86_64__)
  if (has_table("avx2")) add(avx2_fma_peaks());
  if (has_table("avx2 vnni")) add(avx_vnni_peaks());
  if (has_table("avx512")) add(avx512_fma_peaks());
  if (has_table("avx512 vnni")) add(avx512_vnni_peaks());
  if (has_table("avx512") && has_avx512_bf16()) add(avx512_bf16_peaks());
  if (has_table("avx512 amx")) {
    add(amx_bf16_peaks());
    if (has_int8_tiles()) add(amx_int8_peaks());
  }
#endif
  return found;
}

}  // namespace reprise::tools
