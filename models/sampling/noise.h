#pragma once
// The sampler's noise: a function of (seed, choice index, step) and of nothing else. It has no state, so what
// else runs, in which batch, and whether a sequence was swapped out meanwhile cannot change it.
//
// It is the counter-based generator Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
// easy as 1, 2, 3", 2011): ten rounds that mix a 128-bit counter under a 64-bit key.
//
// Threading: pure functions.

#include <array>
#include <cstdint>

namespace reprise::models {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// Uniform in [0, 1), a multiple of 2^-53. The key is the seed, low word first; the counter is (step low,
/// step high, choice, 0); the number is made of the first two words of the result, the first being the lower.
double uniform(std::uint64_t seed, std::uint32_t choice, std::uint64_t step);
/// Another of the same step, of the last two words.
double second_uniform(std::uint64_t seed, std::uint32_t choice, std::uint64_t step);

}  // namespace reprise::models
