#pragma once
// The sampler's random numbers: a pure function of (seed, choice index, step), so that neither the batch nor
// preemption can change a choice.
//
// The generator is the counter-based Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
// easy as 1, 2, 3", 2011): ten rounds that mix a 128-bit counter under a 64-bit key.

#include <array>
#include <cstdint>

namespace reprise::models {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// Returns a uniform number in [0, 1), a multiple of 2^-53. The key is the seed, low word first; the counter
/// is (step low, step high, choice, 0); the number comes from the first two words of the result, the low one
/// first.
double uniform(std::uint64_t seed, std::uint32_t choice, std::uint64_t step);
/// Returns an independent number for the same step, from the last two words.
double second_uniform(std::uint64_t seed, std::uint32_t choice, std::uint64_t step);

}  // namespace reprise::models
