// Detects which kernel tables this processor can run, and combines them. REPRISE_WITHOUT_... marks an
// instruction set that is not compiled (gpu/CMakeLists.txt).

#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"
#include "gpu/compute.h"
#include "gpu/cpu/tables.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace reprise::gpu {

namespace {

struct NamedIsa {
  Isa isa;
  std::string_view name;
};
constexpr NamedIsa kIsas[] = {{Isa::kPlain, "plain"},
                              {Isa::kNeon, "neon"},
                              {Isa::kNeonDotprod, "neon-dotprod"},
                              {Isa::kNeonI8mm, "neon-i8mm"},
                              {Isa::kAvx2, "avx2"},
                              {Isa::kAvx2Vnni, "avx2-vnni"},
                              {Isa::kAvx512, "avx512"},
                              {Isa::kAvx512Vnni, "avx512-vnni"},
                              {Isa::kAvx512Amx, "avx512-amx"}};

#if defined(__aarch64__)
[[maybe_unused]] bool has_dot_products() {
#if defined(__linux__)
  constexpr unsigned long kHwcapDotProd = 1UL << 20;
  return (getauxval(AT_HWCAP) & kHwcapDotProd) != 0;
#else
  return false;
#endif
}

[[maybe_unused]] bool has_matrix_products() {
#if defined(__linux__)
  constexpr unsigned long kHwcap2I8mm = 1UL << 13;
  constexpr unsigned long kHwcap2Bf16 = 1UL << 14;
  const unsigned long features = getauxval(AT_HWCAP2);
  return has_dot_products() && (features & kHwcap2I8mm) != 0 && (features & kHwcap2Bf16) != 0;
#else
  return false;
#endif
}
#elif defined(__x86_64__)
/// Requires AVX2, FMA and F16C. F16C is read from CPUID because clang 16 has no
/// __builtin_cpu_supports("f16c"); the builtin for AVX2 checks that the system saves the registers.
[[maybe_unused]] bool has_avx2() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

[[maybe_unused]] bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kAvxVnni = 1U << 4;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvxVnni) != 0;
}

/// Requires AMX-BF16 and AMX-INT8. Linux grants a process the tile registers only on request; the grant
/// covers all threads, including running ones.
[[maybe_unused]] bool has_tiles() {
#if defined(__linux__)
  static const bool has = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    constexpr unsigned kTiles = 1U << 22 | 1U << 24 | 1U << 25;  // AMX-BF16, AMX-TILE, AMX-INT8
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
    if ((edx & kTiles) != kTiles) return false;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return has;
#else
  return false;
#endif
}
#endif

/// A copy of another table in which some formats have a faster product.
class ExtendedKernels {
 public:
  ExtendedKernels(Isa isa, const Kernels& other, std::span<const FastProduct> products) : kernels_(other) {
    REPRISE_CHECK(other.formats.size() <= formats_.size(), "more weight formats than the kernel table holds");
    std::copy(other.formats.begin(), other.formats.end(), formats_.begin());
    const std::span<FormatKernels> rows = std::span(formats_).first(other.formats.size());
    for (const FastProduct& fast : products) {
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const FormatKernels& candidate) {
        return candidate.format == fast.format;
      });
      REPRISE_CHECK(row != rows.end(),
                    "a fast GEMM was registered for a weight format that is not in the kernel table");
      row->fast = fast.product;
    }
    kernels_.isa = isa;
    kernels_.formats = rows;
  }
  ExtendedKernels(const ExtendedKernels&) = delete;
  ExtendedKernels& operator=(const ExtendedKernels&) = delete;

  const Kernels& kernels() const { return kernels_; }

 private:
  std::array<FormatKernels, 32> formats_{};
  Kernels kernels_;
};

}  // namespace

std::string_view name_of(Isa isa) {
  for (const NamedIsa& named : kIsas) {
    if (named.isa == isa) return named.name;
  }
  return "unknown";
}

std::optional<Isa> isa_named(std::string_view name) {
  for (const NamedIsa& named : kIsas) {
    if (named.name == name) return named.isa;
  }
  return std::nullopt;
}

bool is_available(Isa isa) {
  switch (isa) {
    case Isa::kPlain:
      return true;
#if defined(__aarch64__)
    case Isa::kNeon:
      return true;
#ifndef REPRISE_WITHOUT_NEON_DOTPROD
    case Isa::kNeonDotprod:
      return has_dot_products();
#endif
#ifndef REPRISE_WITHOUT_NEON_I8MM
    case Isa::kNeonI8mm:
      return has_matrix_products();
#endif
#elif defined(__x86_64__)
#ifndef REPRISE_WITHOUT_AVX2
    case Isa::kAvx2:
      return has_avx2();
#endif
#ifndef REPRISE_WITHOUT_AVX512
    case Isa::kAvx512:
      return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl");
#endif
#ifndef REPRISE_WITHOUT_AVX2_VNNI
    case Isa::kAvx2Vnni:
      return has_avx2() && has_avx_vnni();
#endif
#ifndef REPRISE_WITHOUT_AVX512_VNNI
    case Isa::kAvx512Vnni:
      return is_available(Isa::kAvx512) && __builtin_cpu_supports("avx512vnni");
#endif
#ifndef REPRISE_WITHOUT_AVX512_AMX
    case Isa::kAvx512Amx:
      return is_available(Isa::kAvx512Vnni) && has_tiles();
#endif
#endif
    default:
      return false;
  }
}

std::vector<Isa> available_isas() {
  std::vector<Isa> available;
  for (const NamedIsa& named : kIsas) {
    if (is_available(named.isa)) available.push_back(named.isa);
  }
  return available;
}

Isa best_isa() {
  return available_isas().back();
}

const FormatKernels* Kernels::find(const WeightFormat& format) const {
  for (const FormatKernels& row : formats) {
    if (row.format == &format) return &row;
  }
  return nullptr;
}

const FormatKernels& Kernels::format(const WeightFormat& format) const {
  const FormatKernels* found = find(format);
  REPRISE_CHECK(found != nullptr, "the weight format has no kernels");
  return *found;
}

const WeightFormat* format_named(std::string_view name) {
  for (const WeightFormat* format : kWeightFormats) {
    if (format->name == name) return format;
  }
  return nullptr;
}

std::string name_of(const Kernels& kernels) {
  std::string name(name_of(kernels.isa));
  for (const FormatKernels& format : kernels.formats) {
    if (format.has_fast()) name += ", " + std::string(format.format->name);
  }
  return name;
}

const Kernels& cpu_kernels(Isa isa) {
  REPRISE_CHECK(is_available(isa), "kernels were requested that this processor cannot run");
  switch (isa) {
#if defined(__aarch64__)
    case Isa::kNeon:
      return kNeonKernels;
#ifndef REPRISE_WITHOUT_NEON_DOTPROD
    case Isa::kNeonDotprod: {
      static const ExtendedKernels extended(isa, kNeonKernels, kNeonDotprodProducts);
      return extended.kernels();
    }
#endif
#ifndef REPRISE_WITHOUT_NEON_I8MM
    case Isa::kNeonI8mm: {
      static const ExtendedKernels extended(isa, kNeonKernels, kNeonI8mmProducts);
      return extended.kernels();
    }
#endif
#elif defined(__x86_64__)
#ifndef REPRISE_WITHOUT_AVX2
    case Isa::kAvx2:
      return kAvx2Kernels;
#endif
#ifndef REPRISE_WITHOUT_AVX2_VNNI
    case Isa::kAvx2Vnni: {
      static const ExtendedKernels extended(isa, kAvx2Kernels, kAvx2VnniProducts);
      return extended.kernels();
    }
#endif
#ifndef REPRISE_WITHOUT_AVX512
    case Isa::kAvx512:
      return kAvx512Kernels;
#endif
#ifndef REPRISE_WITHOUT_AVX512_VNNI
    case Isa::kAvx512Vnni: {
      static const ExtendedKernels extended(isa, kAvx512Kernels, kAvx512VnniProducts);
      return extended.kernels();
    }
#endif
#ifndef REPRISE_WITHOUT_AVX512_AMX
    case Isa::kAvx512Amx: {
      static const ExtendedKernels extended(isa, cpu_kernels(Isa::kAvx512Vnni), kAvx512AmxProducts);
      return extended.kernels();
    }
#endif
#endif
    default:
      return kPlainKernels;
  }
}

}  // namespace reprise::gpu
