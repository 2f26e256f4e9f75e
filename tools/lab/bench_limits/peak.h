#pragma once
// The most products a second that a core makes in registers: one endless chain in each of many, so that only the
// instruction's own rate counts. One source for each instruction set, compiled for it.
//
// Threading: plain functions, each thread on its own registers.

#include <cstddef>
#include <string_view>
#include <vector>

namespace reprise::tools {

struct Peak {
  std::string_view name;            // of the instruction
  std::string_view numbers;         // what it multiplies: "f32", "bf16", "int8"
  double operations;                // of one turn: every product and every sum counts one
  float (*run)(std::size_t turns);  // what it returns means nothing; it keeps the work from being left out
};

/// Those that this processor has; several of one name are that many ways to reach it.
std::vector<Peak> peaks();

// What the sources have; to be asked for only where the processor has the instructions.
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

}  // namespace reprise::tools
