// How patient the policies are with which entries, and what makes one of them more so.
#include "actors/cache/eviction_policy.h"

#include <gtest/gtest.h>

namespace reprise::actors {
namespace {

using std::chrono::seconds;

constexpr EntryKind kSingle{}, kShared{.shared = true}, kBoth{.shared = true, .hit = true};

TEST(EvictionPolicies, AreKnownByName) {
  EXPECT_EQ(eviction_policy_names(), (std::vector<std::string>{"lru", "forks", "returns"}));
  for (const std::string& name : eviction_policy_names()) EXPECT_NE(make_eviction_policy(name), nullptr);
  EXPECT_EQ(make_eviction_policy("best"), nullptr);
}

TEST(EvictionPolicies, ForksHasFixedFactors) {
  const auto policy = make_eviction_policy("forks");
  for (int i = 0; i < 1000; ++i) policy->evicted(kSingle, seconds(1));
  EXPECT_EQ(policy->patience(kSingle), 1U);
  EXPECT_EQ(policy->patience(kShared), 4U);
  EXPECT_EQ(policy->patience(kBoth), 8U);
}

TEST(EvictionPolicies, ReturnsIsMorePatientWithWhatIsSharedWhereMemoryIsShort) {
  const auto policy = make_eviction_policy("returns");
  EXPECT_EQ(policy->patience(kShared), 3U);
  for (int i = 0; i < 1000; ++i) {
    policy->returned(kSingle, seconds(180));
    policy->evicted(kSingle, seconds(30));
  }
  EXPECT_EQ(policy->patience(kShared), 12U) << "a third of 180 over 30, squared, times 3";
  EXPECT_EQ(policy->patience(kBoth), 24U);
  EXPECT_EQ(policy->patience(kSingle), 1U);
  for (int i = 0; i < 1000; ++i) policy->evicted(kSingle, seconds(1));
  EXPECT_EQ(policy->patience(kShared), 64U) << "and no more";
  for (int i = 0; i < 1000; ++i) policy->evicted(kSingle, seconds(600));
  EXPECT_EQ(policy->patience(kShared), 3U) << "it forgets";
}

TEST(EvictionPolicies, ReturnsLearnsFromSingleEntriesAlone) {
  const auto policy = make_eviction_policy("returns");
  for (int i = 0; i < 1000; ++i) {
    policy->evicted(kShared, seconds(1));
    policy->returned(kShared, seconds(10'000));
  }
  EXPECT_EQ(policy->patience(kShared), 3U);
}

}  // namespace
}  // namespace reprise::actors
