// Compiled with -ffp-contract=off: see models/CMakeLists.txt.
#include "models/sampling/softmax.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace reprise::models {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The loops below are written for auto-vectorization: blocks of fixed size, with element i of a block in lane
// i % kLanes.
constexpr std::size_t kBlock = 256;
constexpr std::size_t kLanes = 16;

/// Returns e^x for x <= 0; 0 for NaN and below -87, near the subnormal range.
inline float exp_of_negative(float x) {
  constexpr float kLowest = -87;
  constexpr float kNothing = -88;  // gives n = -127, for which the bits of 2^n are all 0
  constexpr float kLog2E = 0x1.715476p0f;
  constexpr float kLn2High = 0x1.62e4p-1f;  // few enough bits that n * kLn2High is exact
  constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  constexpr float kRound = 0x1.8p23f;  // adding it leaves the rounded integer in the low bits

  x = x >= kLowest ? x : kNothing;
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = x - n * kLn2High - n * kLn2Low;  // |r| <= ln(2) / 2
  // The first eight terms of the series, in independent pairs.
  const float r2 = r * r;
  const float p =
      (1.0f + r) + r2 * ((1.0f / 2 + r * (1.0f / 6)) +
                         r2 * ((1.0f / 24 + r * (1.0f / 120)) + r2 * (1.0f / 720 + r * (1.0f / 5040))));
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(shifted) + 127) << 23;  // the bits of 2^n
  return p * std::bit_cast<float>(power);
}

/// Compares first, because infinity - infinity is NaN.
inline float weight_of(float logit, float best, float scale) {
  return exp_of_negative(logit == best ? 0.0f : (logit - best) * scale);
}

}  // namespace

float best_logit(std::span<const float> logits) {
  float best = -kInfinity;
  for (; logits.size() >= kBlock; logits = logits.subspan(kBlock)) {
    unsigned any = 0;
    for (std::size_t i = 0; i < kBlock; ++i) any |= unsigned{logits[i] > best};
    if (any == 0) continue;
    for (std::size_t i = 0; i < kBlock; ++i) best = logits[i] > best ? logits[i] : best;
  }
  for (const float logit : logits) best = logit > best ? logit : best;
  return best;
}

Softmax::Softmax(float best, double temperature)
    : best_(best),
      scale_(static_cast<float>(std::min<double>(1 / temperature, std::numeric_limits<float>::max()))) {}

double Softmax::weight(float logit) const {
  return weight_of(logit, best_, scale_);
}

double Softmax::total(std::span<const float> logits) const {
  std::array<double, kLanes> sums{};
  std::array<float, kBlock> weights;
  while (!logits.empty()) {
    const std::size_t count = std::min(kBlock, logits.size());
    for (std::size_t i = 0; i < count; ++i) weights[i] = weight_of(logits[i], best_, scale_);
    std::fill(weights.begin() + static_cast<std::ptrdiff_t>(count), weights.end(), 0.0f);
    for (std::size_t i = 0; i < kBlock; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<double>(weights[i + lane]);
    }
    logits = logits.subspan(count);
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace reprise::models
