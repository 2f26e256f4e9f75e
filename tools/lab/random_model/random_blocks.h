#pragma once
// Random weights as a function of the seed and the tensor's name. Scales are those of a newly initialized
// model, so that activations stay near one in all layers and logits are finite.
//
// For GGUF block types all bits are random; only the scales are set, so that weights have mean 0 and about
// the requested standard deviation.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "models/arch/config.h"
#include "models/files/dtype.h"

namespace reprise::tools {

/// The splitmix64 generator.
class Random {
 public:
  Random(std::uint64_t seed, const std::string& name) : state_(seed) {
    for (const char c : name) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    next();
  }

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// Returns a value in [0, 1).
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }
  /// Returns a nearly normal value with mean 0 and variance 1: the sum of four uniform ones.
  float normal() {
    const std::uint64_t bits = next();
    const auto sum =
        static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return (sum * 0x1p-16F - 2.0F) * 1.7320508F;
  }

 private:
  std::uint64_t state_;
};

using Draw = std::function<float(Random&)>;

Draw draw_for(const models::TensorSpec& spec, const models::ModelConfig& config);

/// Returns the standard deviation of a matrix's elements.
float scale_for(const models::TensorSpec& spec, const models::ModelConfig& config);

bool has_random_blocks(models::DType type);

/// Fills `blocks`, whose size must be a multiple of the type's block size.
void random_blocks(models::DType type, float deviation, Random& random, std::span<std::byte> blocks);

/// Round to the nearest 16-bit value.
std::uint16_t to_f16(float value);
std::uint16_t to_bf16(float value);
/// Rounds to the nearest FP8 E4M3 value (no infinity), at most 448.
std::uint8_t to_e4m3(float value);

}  // namespace reprise::tools
