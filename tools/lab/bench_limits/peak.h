#pragma once
// Measures the peak rate of an instruction in registers: several independent dependency chains of it, without
// memory accesses. One source file per instruction set, compiled for it; the templates have internal linkage
// for that reason.

#include <cstddef>
#include <string_view>
#include <vector>

#if defined(__aarch64__)
#define REPRISE_ANY_VECTOR "+w"
#elif defined(__AVX512F__)
#define REPRISE_ANY_VECTOR "+v"
#else
#define REPRISE_ANY_VECTOR "+x"
#endif

namespace reprise::tools {

struct Peak {
  std::string_view name;            // instruction
  std::string_view numbers;         // input type: "f32", "bf16", "int8"
  double operations;                // per iteration; a multiply-add counts as two
  float (*run)(std::size_t turns);  // the result only prevents optimization
};

// Defined per instruction set; call only if the processor supports it.
#if defined(__aarch64__)
std::vector<Peak> neon_fma_peaks();
std::vector<Peak> neon_dot_peaks();
std::vector<Peak> neon_matrix_peaks();
#elif defined(__x86_64__)
std::vector<Peak> avx2_fma_peaks();
std::vector<Peak> avx_vnni_peaks();
std::vector<Peak> avx512_fma_peaks();
std::vector<Peak> avx512_vnni_peaks();
std::vector<Peak> avx512_bf16_peaks();
std::vector<Peak> amx_bf16_peaks();
std::vector<Peak> amx_int8_peaks();
#endif

// -- for the sources that define peaks

// Operands with realistic values: some processors are faster with zeros.
alignas(64) inline constexpr signed char kBytes[64] = {
    53,  -17, 96,  -120, 7,    31, -64, 88,   -3,  109, -45, 12,  -99, 61,   24,   -78,
    115, -28, 5,   70,   -110, 43, -8,  91,   -57, 19,  102, -36, 66,  -125, 10,   37,
    -81, 48,  -14, 120,  -69,  2,  83,  -104, 29,  58,  -41, 94,  -22, 74,   -116, 15,
    -90, 35,  107, -51,  68,   -6, 40,  -73,  99,  -33, 17,  125, -84, 55,   -11,  27};
alignas(64) inline constexpr float kFloats[16] = {0.731F,  -0.418F, 0.1943F, -0.867F, 0.553F,   -0.2917F,
                                                  0.977F,  -0.646F, -0.385F, 0.8121F, -0.5287F, 0.243F,
                                                  -0.937F, 0.6613F, -0.149F, 0.4759F};
alignas(64) inline constexpr unsigned short kBf16s[32] = {
    0x3f3b, 0xbed6, 0x3e47, 0xbf5e, 0x3f0e, 0xbe95, 0x3f7a, 0xbf25, 0xbec5, 0x3f50, 0xbf07,
    0x3e79, 0xbf70, 0x3f29, 0xbe19, 0x3ef4, 0x3f61, 0xbe2f, 0x3f13, 0xbf43, 0x3ea8, 0xbf1c,
    0x3f6d, 0xbe83, 0xbf57, 0x3e5b, 0x3f35, 0xbee1, 0x3f02, 0xbf78, 0x3e91, 0xbf4a};

namespace {

/// kCount registers as separate variables, so that none is spilled to memory.
template <std::size_t kCount, class Register>
struct Chains {
  Register sum;
  Chains<kCount - 1, Register> others;

  [[gnu::always_inline]] explicit Chains(Register start) : sum(start), others(start) {}

  template <class Step>
  [[gnu::always_inline]] void turn(Step step) {
    sum = step(sum);
    asm volatile("" : REPRISE_ANY_VECTOR(sum));  // keeps the compiler from merging identical chains
    others.turn(step);
  }
  template <class Add>
  [[gnu::always_inline]] Register added(Register to, Add add) const {
    return others.added(add(to, sum), add);
  }
};

template <class Register>
struct Chains<0, Register> {
  [[gnu::always_inline]] explicit Chains(Register /*start*/) {}
  template <class Step>
  [[gnu::always_inline]] void turn(Step /*step*/) {}
  template <class Add>
  [[gnu::always_inline]] Register added(Register to, Add /*add*/) const {
    return to;
  }
};

/// Applies step(sum) `turns` times to each of kCount sums starting at `start`; returns their total by add().
template <std::size_t kCount, class Register, class Step, class Add>
[[gnu::always_inline]] inline Register run_chains(std::size_t turns, Register start, Step step, Add add) {
  Chains<kCount, Register> chains(start);
  for (std::size_t turn = 0; turn < turns; ++turn) chains.turn(step);
  return chains.added(start, add);
}

/// Returns a peak per chain count, because the count that saturates the pipes varies by processor.
/// run_of<n>() is the loop over n chains, `operations` the operations of one instruction.
template <std::size_t... kCounts, class RunOf>
std::vector<Peak> peaks_of(std::string_view name, std::string_view numbers, double operations, RunOf run_of) {
  return {Peak{name, numbers, operations * kCounts, run_of.template operator()<kCounts>()}...};
}

}  // namespace

}  // namespace reprise::tools
