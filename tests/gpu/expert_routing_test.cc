// The MoE router: bitwise identical in all tables, values match the definition, ties.

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

Routed route(const Kernels& kernels, const std::vector<float>& logits, std::size_t chosen, bool normalized) {
  Routed out{std::vector<std::uint32_t>(chosen), std::vector<float>(chosen)};
  kernels.route_experts({.logits = logits.data(),
                         .experts = logits.size(),
                         .chosen = chosen,
                         .normalized = normalized,
                         .expert = out.experts.data(),
                         .weight = out.weights.data()});
  return out;
}

TEST(ExpertRouting, IsItsDefinitionInEveryTable) {
  Random random(21);
  for (std::size_t experts = 1; experts < 70; ++experts) {
    const std::size_t chosen = random.size(1, experts);
    const bool normalized = experts % 2 == 0;
    const std::vector<float> logits = random.floats(experts, experts % 5 == 0 ? 40.0F : 3.0F);
    const Routed expected = route(plain(), logits, chosen, normalized);

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
      const double share = std::exp(static_cast<double>(logits[best[i]] - top)) / (normalized ? sum : all);
      EXPECT_NEAR(expected.weights[i], share, 2e-6) << experts << " experts";
    }
    for (const Kernels* table : all_tables()) {
      const Routed found = route(*table, logits, chosen, normalized);
      EXPECT_EQ(found.experts, expected.experts) << label(*table);
      EXPECT_TRUE(same_bits(found.weights, expected.weights)) << label(*table);
    }
  }
}

struct Kind {
  RouterScores scores = RouterScores::kSoftmax;
  bool has_bias = false;
  std::size_t groups = 1;
  std::size_t chosen_groups = 1;
  bool normalized = false;
  float epsilon = 0;
  float scale = 1;
};

Routed route(const Kernels& kernels, const std::vector<float>& logits, const std::vector<float>& bias,
             std::size_t chosen, const Kind& kind) {
  Routed out{std::vector<std::uint32_t>(chosen), std::vector<float>(chosen)};
  std::vector<float> scratch(2 * logits.size() + kind.groups);
  kernels.route_experts({.logits = logits.data(),
                         .experts = logits.size(),
                         .chosen = chosen,
                         .normalized = kind.normalized,
                         .scores = kind.scores,
                         .bias = kind.has_bias ? bias.data() : nullptr,
                         .groups = kind.groups,
                         .chosen_groups = kind.chosen_groups,
                         .epsilon = kind.epsilon,
                         .scale = kind.scale,
                         .scratch = scratch.data(),
                         .expert = out.experts.data(),
                         .weight = out.weights.data()});
  return out;
}

/// The definition, by sorting.
Routed naive_route(const std::vector<float>& logits, const std::vector<float>& bias, std::size_t chosen,
                   const Kind& kind) {
  const std::size_t experts = logits.size();
  std::vector<double> scores(experts);
  double all = 0;
  for (std::size_t e = 0; e < experts; ++e) {
    const double logit = logits[e];
    scores[e] = kind.scores == RouterScores::kSigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit);
    all += scores[e];
  }
  std::vector<double> ranks(experts);
  for (std::size_t e = 0; e < experts; ++e) {
    if (kind.scores == RouterScores::kSoftmax) scores[e] /= all;
    ranks[e] = scores[e] + (kind.has_bias ? static_cast<double>(bias[e]) : 0.0);
  }
  const std::size_t size = experts / kind.groups;
  std::vector<std::pair<double, std::size_t>> groups;  // best first
  for (std::size_t g = 0; g < kind.groups; ++g) {
    std::vector<double> own(ranks.begin() + static_cast<std::ptrdiff_t>(g * size),
                            ranks.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    std::sort(own.rbegin(), own.rend());
    groups.emplace_back(-(own[0] + (size > 1 ? own[1] : 0.0)), g);
  }
  std::sort(groups.begin(), groups.end());
  std::vector<std::pair<double, std::uint32_t>> best;
  for (std::size_t i = 0; i < kind.chosen_groups; ++i) {
    for (std::size_t e = groups[i].second * size; e < (groups[i].second + 1) * size; ++e) {
      best.emplace_back(-ranks[e], static_cast<std::uint32_t>(e));
    }
  }
  std::sort(best.begin(), best.end());
  Routed out;
  double sum = 0;
  for (std::size_t i = 0; i < chosen; ++i) {
    out.experts.push_back(best[i].second);
    sum += scores[best[i].second];
  }
  std::sort(out.experts.begin(), out.experts.end());
  for (const std::uint32_t e : out.experts) {
    const double share = kind.normalized ? scores[e] / (sum + static_cast<double>(kind.epsilon)) : scores[e];
    out.weights.push_back(static_cast<float>(share * static_cast<double>(kind.scale)));
  }
  return out;
}

TEST(ExpertRouting, IsItsDefinitionForEveryKindOfRouter) {
  const Kind kinds[] = {
      {.scores = RouterScores::kSigmoid},
      {.scores = RouterScores::kSigmoid,
       .has_bias = true,
       .normalized = true,
       .epsilon = 1e-20F,
       .scale = 2.5F},
      {.scores = RouterScores::kSigmoid,
       .has_bias = true,
       .groups = 4,
       .chosen_groups = 2,
       .normalized = true},
      {.scores = RouterScores::kSigmoid, .groups = 3, .chosen_groups = 1, .scale = 0.5F},
      {.scores = RouterScores::kSigmoid, .normalized = true, .epsilon = 0.5F},
      {.has_bias = true, .scale = 6},
      {.has_bias = true, .groups = 2, .chosen_groups = 2},
      {.groups = 5, .chosen_groups = 3, .normalized = true},
  };
  Random random(23);
  for (const Kind& kind : kinds) {
    for (std::size_t size = 2; size < 24; ++size) {
      const std::size_t experts = size * kind.groups;
      const std::size_t chosen = random.size(1, size * kind.chosen_groups);
      const std::vector<float> logits = random.floats(experts, size % 5 == 0 ? 6.0F : 2.0F);
      const std::vector<float> bias = random.floats(experts, 0.3F);
      const Routed expected = naive_route(logits, bias, chosen, kind);
      const Routed first = route(plain(), logits, bias, chosen, kind);
      EXPECT_EQ(first.experts, expected.experts) << experts << " experts";
      for (std::size_t i = 0; i < chosen; ++i) {
        EXPECT_NEAR(first.weights[i], expected.weights[i], 4e-6 * kind.scale) << experts << " experts";
      }
      for (const Kernels* table : all_tables()) {
        const Routed found = route(*table, logits, bias, chosen, kind);
        EXPECT_EQ(found.experts, first.experts) << label(*table);
        EXPECT_TRUE(same_bits(found.weights, first.weights)) << label(*table);
      }
    }
  }
}

TEST(ExpertRouting, TiesOfGroupsGoToTheLowerIndex) {
  const Kind kind{.scores = RouterScores::kSigmoid, .groups = 3, .chosen_groups = 1, .normalized = true};
  for (const Kernels* table : all_tables()) {
    EXPECT_EQ(route(*table, {0, 0, 0, 0, 0, 0, 0, 0, 0}, {}, 2, kind).experts,
              (std::vector<std::uint32_t>{0, 1}));
    // Two good experts in a group beat a single best one.
    EXPECT_EQ(route(*table, {-9, -9, 4, 2, 2, -9, 2, -9, 2}, {}, 3, kind).experts,
              (std::vector<std::uint32_t>{3, 4, 5}));
    // Experts of groups that are not kept are never chosen, however low the others score.
    const Kind biased{.scores = RouterScores::kSigmoid, .has_bias = true, .groups = 2, .chosen_groups = 1};
    EXPECT_EQ(route(*table, {1, 1, 0, 2, 2, -50}, {0, 0, 0, 0, 0, -7}, 3, biased).experts,
              (std::vector<std::uint32_t>{3, 4, 5}));
  }
}

TEST(ExpertRouting, TheBiasCountsInTheChoiceAlone) {
  const Kind kind{.scores = RouterScores::kSigmoid, .has_bias = true};
  for (const Kernels* table : all_tables()) {
    const Routed chosen = route(*table, {0, 3, 0, 1}, {5, 0, 0, 0}, 2, kind);
    EXPECT_EQ(chosen.experts, (std::vector<std::uint32_t>{0, 1}));
    EXPECT_EQ(chosen.weights[0], 0.5F);
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
    // NaN logits still give distinct, ascending, valid experts.
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
