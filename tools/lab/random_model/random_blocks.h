#pragma once
// Random blocks of every type that GGUF files store weights in: bits drawn at random are valid elements, and only
// the scales among them are set, so that the weights have mean 0 and about the standard deviation asked for.
//
// Threading: pure functions.

#include <cstddef>
#include <span>

#include "models/files/dtype.h"
#include "tools/lab/random_model/draws.h"

namespace reprise::tools {

/// Whether random_blocks() knows the type.
bool has_random_blocks(models::DType type);

/// Fills `blocks`, which has whole blocks of the type.
void random_blocks(models::DType type, float deviation, Random& random, std::span<std::byte> blocks);

/// The nearest number of 16 bits.
std::uint16_t to_f16(float value);
std::uint16_t to_bf16(float value);
/// The nearest number of FP8 (four bits of exponent, three of fraction, no infinity), 448 at most.
std::uint8_t to_e4m3(float value);

}  // namespace reprise::tools
