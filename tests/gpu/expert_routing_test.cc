// The router of experts: the same bits in every table, the numbers of its definition, and ties.

#include <algorithm>

#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu {
namespace {

using test::all_tables;
using test::label;
using test::plain;
using test::Random;
using test::same_bits;

struct Routed {
  std::vector<std::uint32_t> experts;
  std::vector<float> weights;
};

Routed route(const Kernels& kernels, const std::vector<float>& logits, std::size_t chosen, bool normalised) {
  Routed out{std::vector<std::uint32_t>(chosen), std::vector<float>(chosen)};
  kernels.route_experts({.logits = logits.data(),
                         .experts = logits.size(),
                         .chosen = chosen,
                         .normalised = normalised,
                         .expert = out.experts.data(),
                         .weight = out.weights.data()});
  return out;
}

TEST(ExpertRouting, IsItsDefinitionInEveryTable) {
  Random random(21);
  for (std::size_t experts = 1; experts < 70; ++experts) {
    const std::size_t chosen = random.size(1, experts);
    const bool normalised = experts % 2 == 0;
    const std::vector<float> logits = random.floats(experts, experts % 5 == 0 ? 40.0F : 3.0F);
    const Routed expected = route(plain(), logits, chosen, normalised);

    std::vector<std::uint32_t> best(experts);
    for (std::size_t e = 0; e < experts; ++e) best[e] = static_cast<std::uint32_t>(e);
    std::stable_sort(best.begin(), best.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
    double all = 0;
    for (const float logit : logits) all += std::exp(static_cast<double>(logit - logits[best[0]]));
    best.resize(chosen);
    std::sort(best.begin(), best.end());
    EXPECT_EQ(expected.experts, best);
    double sum = 0;
    const float top = *std::max_element(logits.begin(), logits.end());
    for (const std::uint32_t e : best) sum += std::exp(static_cast<double>(logits[e] - top));
    for (std::size_t i = 0; i < chosen; ++i) {
      const double share = std::exp(static_cast<double>(logits[best[i]] - top)) / (normalised ? sum : all);
      EXPECT_NEAR(expected.weights[i], share, 2e-6) << experts << " experts";
    }
    for (const Kernels* table : all_tables()) {
      const Routed found = route(*table, logits, chosen, normalised);
      EXPECT_EQ(found.experts, expected.experts) << label(*table);
      EXPECT_TRUE(same_bits(found.weights, expected.weights)) << label(*table);
    }
  }
}

TEST(ExpertRouting, TiesGoToTheLowerIndex) {
  for (const Kernels* table : all_tables()) {
    EXPECT_EQ(route(*table, std::vector<float>(20, 1.5F), 3, true).experts,
              (std::vector<std::uint32_t>{0, 1, 2}));
    const Routed some = route(*table, {0, 2, 1, 2, 1, 3, 2, 1}, 4, true);
    EXPECT_EQ(some.experts, (std::vector<std::uint32_t>{1, 3, 5, 6}));
    EXPECT_EQ(some.weights[0], some.weights[1]);
    EXPECT_EQ(route(*table, {0, 2, 1, 2, 1, 3, 2, 1}, 5, true).experts,
              (std::vector<std::uint32_t>{1, 2, 3, 5, 6}));
    // What is no number does not lead astray.
    const std::vector<std::uint32_t> odd = route(*table, {NAN, 1, NAN, 2}, 3, true).experts;
    EXPECT_TRUE(odd[0] < odd[1] && odd[1] < odd[2] && odd[2] < 4) << label(*table);
  }
}

TEST(ExpertRouting, AddsScaledRowsAlikeInEveryTable) {
  Random random(22);
  for (std::size_t count = 0; count < 60; ++count) {
    const std::vector<float> x = random.floats(count);
    const std::vector<float> before = random.floats(count);
    const float scale = random.floats(1)[0];
    std::vector<float> expected = before;
    for (std::size_t i = 0; i < count; ++i) expected[i] = std::fma(scale, x[i], before[i]);
    for (const Kernels* table : all_tables()) {
      std::vector<float> y = before;
      table->add_scaled(x.data(), scale, y.data(), count);
      EXPECT_TRUE(same_bits(y, expected)) << label(*table);
    }
  }
}

}  // namespace
}  // namespace reprise::gpu
