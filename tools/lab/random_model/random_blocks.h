#pragma once
// The random numbers that weights are made of: a function of the seed and the tensor's name alone. Their scales are
// those of a model at the start of its training, so that activations stay near one through all layers and logits
// are finite.
//
// Blocks of the types that GGUF files store weights in are bits drawn at random, which are valid elements; only the scales
// among them are set, so that the weights have mean 0 and about the standard deviation asked for.
//
// Threading: plain values.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "models/arch/config.h"
#include "models/files/dtype.h"

namespace reprise::tools {

/// splitmix64
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
  /// In [0, 1).
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }
  /// Mean 0, variance 1, nearly normal: the sum of four uniform numbers.
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

/// How the elements of a tensor are drawn.
Draw draw_for(const models::TensorSpec& spec, const models::ModelConfig& config);

/// The standard deviation of the elements of a matrix.
float scale_for(const models::TensorSpec& spec, const models::ModelConfig& config);

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
