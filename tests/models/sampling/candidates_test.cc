// Filters over all candidates compared with their definitions.

#include "models/sampling/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/sampling/sampler.h"

namespace reprise::models {
namespace {

std::vector<TokenId> ids_of(const Candidates& candidates) {
  std::vector<TokenId> ids;
  for (const Candidate& one : candidates) ids.push_back(one.token);
  return ids;
}

Candidates of(std::initializer_list<double> weights) {
  Candidates candidates;
  for (const double weight : weights) {
    candidates.push_back({static_cast<TokenId>(candidates.size()), weight});
  }
  return candidates;
}

TEST(Candidates, TypicalKeepsTokensNearestToTheEntropy) {
  // Entropy 1.30 nats. Surprisals 0.69, 1.39, 2.08 and twice 2.77: the second is nearest, then the first.
  Candidates one = of({0.5, 0.25, 0.125, 0.0625, 0.0625});
  keep_typical(one, 0.2);
  EXPECT_EQ(ids_of(one), (std::vector<TokenId>{1}));
  Candidates two = of({0.5, 0.25, 0.125, 0.0625, 0.0625});
  keep_typical(two, 0.7);
  EXPECT_EQ(ids_of(two), (std::vector<TokenId>{0, 1}));
  Candidates all = of({2, 1, 1});  // weights need not be normalized
  keep_typical(all, 1);
  EXPECT_EQ(all.size(), 3u);
  Candidates least = of({0.9, 0.1});
  keep_typical(least, 0);
  EXPECT_EQ(least.size(), 1u);
}

TEST(Candidates, XtcLeavesTheLeastLikelyOfTheLikely) {
  Candidates several = of({0.5, 0.3, 0.15, 0.05});
  exclude_top_choices(several, 0.1);
  EXPECT_EQ(ids_of(several), (std::vector<TokenId>{2, 3}));
  Candidates single = of({0.9, 0.05, 0.05});
  exclude_top_choices(single, 0.1);
  EXPECT_EQ(single.size(), 3u) << "one alone stays";
  Candidates none = of({0.4, 0.4, 0.2});
  exclude_top_choices(none, 0.6);
  EXPECT_EQ(none.size(), 3u);
}

TEST(Candidates, SigmasAreOfTheLogits) {
  const std::vector<float> logits{4, 2, 0, -2, -4, -std::numeric_limits<float>::infinity()};
  EXPECT_NEAR(sigma_cut(logits, 4, 1), 4 - std::sqrt(8.0), 1e-5);
  EXPECT_NEAR(sigma_cut(logits, 4, 2), 4 - 2 * std::sqrt(8.0), 1e-5);
}

/// DRY penalties by checking every position.
std::vector<std::pair<TokenId, float>> dry_by_definition(const std::vector<TokenId>& history,
                                                         const DryRules& rules) {
  std::vector<std::pair<TokenId, float>> out;
  for (TokenId token = 0; token < 8; ++token) {
    if (std::binary_search(rules.breakers.begin(), rules.breakers.end(), token)) continue;
    std::size_t longest = 0;
    for (std::size_t at = 0; at + 1 <= history.size(); ++at) {
      if (history[at] != token) continue;
      std::size_t length = 0;
      while (length < at && history[at - 1 - length] == history[history.size() - 1 - length] &&
             !std::binary_search(rules.breakers.begin(), rules.breakers.end(), history[at - 1 - length])) {
        ++length;
      }
      longest = std::max(longest, length);
    }
    if (longest < rules.allowed_length || longest == 0) continue;
    const double power = std::pow(rules.base, static_cast<double>(longest - rules.allowed_length));
    out.emplace_back(token, static_cast<float>(rules.multiplier * power));
  }
  return out;
}

TEST(Candidates, DryPenalizesWhatGoesOnWithARepetition) {
  const std::vector<TokenId> breakers{7};
  const DryRules rules{.multiplier = 0.8, .base = 1.75, .allowed_length = 2, .breakers = breakers};
  EXPECT_EQ(dry_penalties(std::vector<TokenId>{1, 2, 3, 1, 2}, rules),
            (std::vector<std::pair<TokenId, float>>{{3, 0.8F}}));
  EXPECT_TRUE(dry_penalties(std::vector<TokenId>{1, 2, 3, 4, 2}, rules).empty()) << "too short to cost";
  EXPECT_TRUE(dry_penalties(std::vector<TokenId>{1, 7, 3, 1, 7}, rules).empty()) << "a breaker between";
  EXPECT_TRUE(dry_penalties(std::vector<TokenId>{}, rules).empty());
  std::uint32_t noise = 1;
  for (int round = 0; round < 300; ++round) {
    std::vector<TokenId> history;
    for (int i = 0; i < 30; ++i) {
      noise = noise * 1664525 + 1013904223;
      history.push_back(static_cast<TokenId>(noise >> 24) % (round % 2 == 0 ? 3 : 8));
    }
    auto found = dry_penalties(history, rules);
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, dry_by_definition(history, rules));
  }
}

TEST(Candidates, ASamplerUsesThem) {
  std::vector<float> logits{3, 2.5F, 2, 1, 0, -1, -2, -3};
  SamplerScratch scratch;
  const auto token = [&](const Sampler& sampler) {
    return std::get<Sampled>(sampler.sample(logits, scratch)).token;
  };
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_GE(token(Sampler({.xtc_probability = 1, .xtc_threshold = 0.15, .seed = seed}, 8)), 2);
    EXPECT_EQ(token(Sampler({.top_n_sigma = 0.1, .seed = seed}, 8)), 0);
    SamplingParams off{.seed = seed};
    SamplingParams on = off;
    on.typical_p = 0.9999999;  // selects the other sampling path, with almost nothing removed
    EXPECT_EQ(token(Sampler(off, 8)), token(Sampler(on, 8)));
  }
  Sampler dry({.temperature = 0, .dry_multiplier = 5, .dry_allowed_length = 1}, 8);
  for (const TokenId id : {0, 5, 0, 5}) dry.accept(id, TokenOrigin::kPrompt);
  EXPECT_EQ(token(dry), 1) << "0 would be the third time";
  EXPECT_FALSE(dry.plan(64)) << "not to be drawn elsewhere";
}

TEST(Candidates, LogprobsOfTheDraw) {
  std::vector<float> logits{2, 2, 1, 0};
  SamplerScratch scratch;
  const Sampler filtered({.top_k = 2, .logprobs = 3, .logprobs_of_draw = true}, 4);
  const auto sampled = std::get<Sampled>(filtered.sample(logits, scratch));
  EXPECT_NEAR(*sampled.logprob, std::log(0.5), 1e-6);
  ASSERT_EQ(sampled.top.size(), 2u) << "those that are left";
  EXPECT_NEAR(sampled.top[1].logprob, std::log(0.5), 1e-6);
  const Sampler model({.top_k = 2, .logprobs = 3}, 4);
  const auto plain = std::get<Sampled>(model.sample(logits, scratch));
  EXPECT_EQ(plain.token, sampled.token);
  EXPECT_EQ(plain.top.size(), 3u);
  const Sampler greedy({.temperature = 0, .logprobs = 3, .logprobs_of_draw = true}, 4);
  EXPECT_EQ(std::get<Sampled>(greedy.sample(logits, scratch)).top, (std::vector<TokenLogprob>{{0, 0}}));
}

TEST(Candidates, EndsWaitForTheLeastLength) {
  std::vector<float> logits{1, 2, 9};
  SamplerScratch scratch;
  Sampler sampler({.temperature = 0, .min_tokens = 1, .ends = {2}}, 3);
  EXPECT_EQ(std::get<Sampled>(sampler.sample(logits, scratch)).token, 1);
  ASSERT_TRUE(sampler.plan(4));
  EXPECT_EQ(sampler.plan(4)->adjustments.at(0).token, 2);
  sampler.accept(1, TokenOrigin::kOutput);
  EXPECT_EQ(std::get<Sampled>(sampler.sample(logits, scratch)).token, 2);
  EXPECT_TRUE(sampler.plan(4)->adjustments.empty());
}

}  // namespace
}  // namespace reprise::models
