#include "models/sampling/ranking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/models/sampling/random_logits.h"

namespace reprise::models {
namespace {

using test::kInfinity;
using test::kNan;

std::vector<TokenId> sorted(const std::vector<float>& logits) {
  std::vector<TokenId> order;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -kInfinity) order.push_back(static_cast<TokenId>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  return order;
}

std::vector<TokenId> ranked(const std::vector<float>& logits, std::size_t first) {
  std::vector<RankedToken> storage(3, RankedToken{1e9f, 0});  // stale contents
  Ranking ranking(logits, storage, first);
  std::vector<TokenId> order;
  while (const RankedToken* next = ranking.at(order.size())) {
    const float logit = logits[static_cast<std::size_t>(next->token)];
    EXPECT_EQ(next->logit, logit);
    order.push_back(next->token);
  }
  EXPECT_EQ(ranking.at(order.size() + 100), nullptr);
  return order;
}

TEST(Ranking, IsAFullSortInParts) {
  test::RandomLogits random(1);
  for (const std::size_t size : {1u, 2u, 31u, 32u, 33u, 500u, 3000u}) {
    for (const std::size_t first : {0u, 1u, 7u, 64u, 499u, 500u, 501u, 5000u}) {
      const std::vector<float> logits = random.make(size);
      EXPECT_EQ(ranked(logits, first), sorted(logits)) << size << " " << first;
    }
  }
}

TEST(Ranking, OrderedInputIsNoSpecialCase) {
  std::vector<float> logits = test::RandomLogits(2).make_distinct(2000);
  std::sort(logits.begin(), logits.end());
  EXPECT_EQ(ranked(logits, 20), sorted(logits));
  std::reverse(logits.begin(), logits.end());
  EXPECT_EQ(ranked(logits, 20), sorted(logits));
}

TEST(Ranking, EqualsGoByTokenId) {
  EXPECT_EQ(ranked({1, 2, 1, 2, 1}, 1), (std::vector<TokenId>{1, 3, 0, 2, 4}));
  EXPECT_EQ(ranked({-0.0f, 0.0f}, 1), (std::vector<TokenId>{0, 1}));
  const std::vector<float> flat(1000, 3);
  EXPECT_EQ(ranked(flat, 10), sorted(flat));
}

TEST(Ranking, WhatIsNoNumberHasNoRank) {
  EXPECT_EQ(ranked({kNan, 1, -kInfinity, kInfinity, kNan, kInfinity}, 2), (std::vector<TokenId>{3, 5, 1}));
  EXPECT_EQ(ranked({kNan, -kInfinity}, 2), std::vector<TokenId>{});
  test::RandomLogits random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> logits = random.make(400);
    for (float& logit : logits) {
      const std::size_t dice = random.below(10);
      if (dice < 3) logit = dice == 0 ? kNan : dice == 1 ? kInfinity : -kInfinity;
    }
    EXPECT_EQ(ranked(logits, 1 + random.below(100)), sorted(logits));
  }
}

TEST(Ranking, AnyRankAtOnce) {
  const std::vector<float> logits = test::RandomLogits(4).make(3000);
  const std::vector<TokenId> order = sorted(logits);
  std::vector<RankedToken> storage;
  Ranking ranking(logits, storage);
  EXPECT_EQ(ranking.at(2500)->token, order[2500]);
  EXPECT_EQ(ranking.at(0)->token, order[0]);
  EXPECT_EQ(ranking.at(2999)->token, order[2999]);
}

}  // namespace
}  // namespace reprise::models
