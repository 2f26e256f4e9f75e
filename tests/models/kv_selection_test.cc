// Which positions of a prompt are kept. kv_compaction_test.cc compares the whole selection with the
// definition.

#include "models/cpu/kv_compaction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace reprise::models {
namespace {

using Pooling = KvBudget::Pooling;

TEST(KvSelection, WeightsAreTheSoftmaxOfWhatAQueryMaySee) {
  std::vector<float> sums(3, 1.0F);
  std::vector<float> logits{std::log(1.0F), std::log(2.0F), std::log(3.0F), std::log(4.0F)};
  cpu::add_probabilities(logits,
                         sums);  // the fourth is the query's own position: it counts only in the total
  EXPECT_NEAR(sums[0], 1.1, 1e-6);
  EXPECT_NEAR(sums[1], 1.2, 1e-6);
  EXPECT_NEAR(sums[2], 1.3, 1e-6);
}

TEST(KvSelection, PoolsAtTheEndsAsThePaperDoes) {
  const std::vector<float> sums{5, 0, 0, 10};
  std::vector<float> average(4, 0.0F);
  cpu::add_pooled(sums, {.pooling = Pooling::kAverage, .pool_width = 5}, average);
  EXPECT_EQ(average, (std::vector<float>{1, 3, 3, 2}));  // outside the ends is 0; the divisor is 5
  std::vector<float> most(4, 100.0F);
  cpu::add_pooled(sums, {.pooling = Pooling::kMax, .pool_width = 3}, most);
  EXPECT_EQ(most, (std::vector<float>{105, 105, 110, 110}));
}

TEST(KvSelection, TiesGoToTheLowerPlace) {
  const KvBudget budget{.tokens = 6, .window = 2, .sinks = 1};
  const std::vector<float> scores{0, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(cpu::kept_entries(scores, 10, budget), (std::vector<std::uint32_t>{0, 1, 2, 3, 8, 9}));
}

TEST(KvSelection, SinksAndWindowStayAndTheHighestBetweenThem) {
  const KvBudget budget{.tokens = 6, .window = 2, .sinks = 2};
  const std::vector<float> scores{0, 0, 1, 9, 2, 7, 3, 4};
  EXPECT_EQ(cpu::kept_entries(scores, 10, budget), (std::vector<std::uint32_t>{0, 1, 3, 5, 8, 9}));
}

TEST(KvSelection, ABudgetOfNoMoreThanItsEndsChoosesNothing) {
  EXPECT_EQ(cpu::kept_entries(std::vector<float>{5, 6, 7}, 6, {.tokens = 4, .window = 3, .sinks = 1}),
            (std::vector<std::uint32_t>{0, 3, 4, 5}));
}

TEST(KvSelection, WhatIsNoNumberIsTheLowest) {
  const KvBudget budget{.tokens = 3, .window = 1, .sinks = 0};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(cpu::kept_entries(std::vector<float>{nan, -1, nan, -2}, 5, budget),
            (std::vector<std::uint32_t>{1, 3, 4}));
}

TEST(KvBudget, SaysWhatMakesNoSense) {
  EXPECT_EQ(refusal_of({}), "");
  EXPECT_EQ(refusal_of({.tokens = 36}), "");
  EXPECT_NE(refusal_of({.tokens = 35}).find("at least 36"), std::string::npos);
  EXPECT_NE(refusal_of({.window = 0}), "");
  EXPECT_NE(refusal_of({.window = 5000}), "");
  EXPECT_NE(refusal_of({.pool_width = 4}), "");
  EXPECT_NE(refusal_of({.sinks = 5000}), "");
  EXPECT_FALSE(KvBudget{}.shortens(1'000'000));
  EXPECT_FALSE(KvBudget{.tokens = 100}.shortens(100));
  EXPECT_TRUE(KvBudget{.tokens = 100}.shortens(101));
}

}  // namespace
}  // namespace reprise::models
