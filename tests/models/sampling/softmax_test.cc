#include "models/sampling/softmax.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "models/sampling/noise.h"
#include "tests/models/sampling/random_logits.h"

namespace reprise::models {
namespace {

using test::kInfinity;
using test::kNan;

TEST(Softmax, WeightIsTheExponential) {
  for (const double temperature : {0.05, 0.7, 1.0, 3.0}) {
    const Softmax softmax(4, temperature);
    for (float logit = 4; logit > -60; logit -= 0.0371f) {
      const double x = (static_cast<double>(logit) - 4) / temperature;
      if (x < -86.9) break;
      EXPECT_NEAR(softmax.weight(logit) / std::exp(x), 1, 2e-7 * (1 - x)) << logit << " at " << temperature;
    }
  }
}

TEST(Softmax, TheBestWeighsOneAndTheFarNothing) {
  const Softmax softmax(4, 1);
  EXPECT_EQ(softmax.weight(4), 1);
  EXPECT_GT(softmax.weight(4 - 87), 0);
  EXPECT_EQ(softmax.weight(4 - 87.1f), 0);
  EXPECT_EQ(softmax.weight(-std::numeric_limits<float>::max()), 0);
  EXPECT_EQ(softmax.weight(-kInfinity), 0);
  EXPECT_EQ(softmax.weight(kNan), 0);
}

TEST(Softmax, WeightsFallWithTheLogit) {
  const Softmax softmax(0, 1);
  double above = 1;
  for (float logit = 0; logit > -90; logit -= 0.001f) {
    const double weight = softmax.weight(logit);
    EXPECT_LE(weight, above);
    above = weight;
  }
}

TEST(Softmax, InfinityBeatsAllElse) {
  const Softmax softmax(kInfinity, 0.5);
  EXPECT_EQ(softmax.weight(kInfinity), 1);
  EXPECT_EQ(softmax.weight(1e30f), 0);
  EXPECT_EQ(softmax.total(std::vector<float>{kInfinity, 3, kInfinity, kNan, -kInfinity}), 2);
}

TEST(Softmax, ATemperatureOfNextToNothing) {
  for (const double temperature : {1e-40, 5e-324}) {
    const Softmax softmax(1, temperature);
    EXPECT_EQ(softmax.weight(1), 1);
    EXPECT_EQ(softmax.weight(std::nextafter(1.0f, 0.0f)), 0);
  }
}

// Vector and scalar code agree bit for bit for any length: blocks are summed into lane i % 16, then the lanes
// in order.
TEST(Softmax, TotalIsTheSumInAFixedOrder) {
  test::RandomLogits random(7);
  for (const std::size_t size : {0u, 1u, 15u, 16u, 17u, 255u, 256u, 257u, 1000u, 5000u}) {
    const std::vector<float> logits = random.make(size);
    const Softmax softmax(best_logit(logits), 0.8);
    std::array<double, 16> lanes{};
    for (std::size_t i = 0; i < size; ++i) lanes[i % 16] += softmax.weight(logits[i]);
    double total = 0;
    for (const double lane : lanes) total += lane;
    EXPECT_EQ(softmax.total(logits), total) << size;
  }
}

// Sampling probabilities must not differ between machines.
TEST(Softmax, BitsAreTheSameEverywhere) {
  const Softmax softmax(3, 0.7);
  EXPECT_EQ(softmax.weight(2.5f), 0x1.f54a680000000p-2);
  EXPECT_EQ(softmax.weight(-10.123f), 0x1.efcaa80000000p-28);
  EXPECT_EQ(softmax.weight(-50.7f), 0x1.409c580000000p-111);
}

TEST(BestLogit, LeavesNanOut) {
  EXPECT_EQ(best_logit({}), -kInfinity);
  EXPECT_EQ(best_logit(std::vector<float>{kNan, kNan}), -kInfinity);
  EXPECT_EQ(best_logit(std::vector<float>{kNan, -3, kNan, -2, kNan}), -2);
  for (const std::size_t offset : {0u, 100u, 255u, 256u, 511u, 512u, 599u}) {
    std::vector<float> logits(600, kNan);
    for (std::size_t i = 0; i < logits.size(); i += 3) logits[i] = -1e30f;
    logits[offset] = -5;
    EXPECT_EQ(best_logit(logits), -5) << offset;
  }
}

// Test vectors published by Philox's authors in Random123.
TEST(Noise, PhiloxKnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Noise, EveryArgumentMatters) {
  const double u = uniform(1, 2, 3);
  EXPECT_EQ(uniform(1, 2, 3), u);
  EXPECT_NE(uniform(2, 2, 3), u);
  EXPECT_NE(uniform(1 + (1ull << 32), 2, 3), u);
  EXPECT_NE(uniform(1, 3, 3), u);
  EXPECT_NE(uniform(1, 2, 4), u);
  EXPECT_NE(uniform(1, 2, 3 + (1ull << 32)), u);
  EXPECT_EQ(uniform(0, 0, 0), static_cast<double>(0xe169c58d6627e8d5 >> 11) * 0x1p-53);
}

TEST(Noise, IsUniform) {
  constexpr int kDraws = 100000, kCells = 100;
  std::array<int, kCells> cells{};
  for (int step = 0; step < kDraws; ++step) {
    const double u = uniform(42, 0, static_cast<std::uint64_t>(step));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++cells[static_cast<std::size_t>(u * kCells)];
  }
  double chi2 = 0;
  for (const int n : cells) chi2 += std::pow(n - kDraws / kCells, 2) / (kDraws / kCells);
  EXPECT_LT(chi2, 170);  // 99 degrees of freedom: exceeded by one seed in 100,000
  EXPECT_GT(chi2, 50);   // nor suspiciously even
}

}  // namespace
}  // namespace reprise::models
