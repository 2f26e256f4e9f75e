// The patience of policies with kinds of entries, and how it adapts.
#include "actors/cache/eviction.h"

#include <gtest/gtest.h>

#include "tools/lab/replay_policies.h"

namespace reprise::actors {
namespace {

using std::chrono::seconds;

constexpr EntryKind kSingle{}, kShared{.shared = true}, kBoth{.shared = true, .hit = true};

TEST(EvictionPolicies, LabPoliciesAreFoundByName) {
  for (const std::string& name : tools::cache_policy_names()) {
    EXPECT_NE(tools::make_cache_policy(name), nullptr);
  }
  EXPECT_EQ(tools::make_cache_policy("best"), nullptr);
}

TEST(EvictionPolicies, ForksHasFixedFactors) {
  const auto policy = tools::make_cache_policy("forks");
  for (int i = 0; i < 1000; ++i) policy->evicted(kSingle, seconds(1));
  EXPECT_EQ(policy->patience(kSingle), 1);
  EXPECT_EQ(policy->patience(kShared), 4);
  EXPECT_EQ(policy->patience(kBoth), 8);
}

// Unshared entries return after `back` and are evicted after `stay`.
void see_single(EvictionPolicy& policy, seconds back, seconds stay) {
  for (int i = 0; i < 2000; ++i) {
    policy.returned(kSingle, back);
    policy.evicted(kSingle, stay);
  }
}

TEST(EvictionPolicies, ReturnsFavorsSharedEntriesIfMemoryIsShort) {
  const auto policy = make_eviction_policy();
  EXPECT_EQ(policy->patience(kShared), 3);
  see_single(*policy, seconds(60), seconds(30));
  EXPECT_NEAR(policy->patience(kShared), 12, 0.5) << "60 over 30, squared, times 3";
  EXPECT_NEAR(policy->patience(kBoth), 24, 1);
  EXPECT_EQ(policy->patience(kSingle), 1);
  see_single(*policy, seconds(60), seconds(1));
  EXPECT_EQ(policy->patience(kShared), 64) << "and no more";
  see_single(*policy, seconds(60), seconds(100));
  EXPECT_LT(policy->patience(kShared), 3) << "it forgets";
  see_single(*policy, seconds(60), seconds(6000));
  EXPECT_EQ(policy->patience(kShared), 2) << "and no less";
}

TEST(EvictionPolicies, ReturnsLearnsFromSingleEntriesAlone) {
  const auto policy = make_eviction_policy();
  for (int i = 0; i < 1000; ++i) {
    policy->evicted(kShared, seconds(1));
    policy->returned(kShared, seconds(10'000));
  }
  EXPECT_EQ(policy->patience(kShared), 3);
}

TEST(EvictionPolicies, ReturnsSparesOldEntriesIfNoneWouldLast) {
  const auto policy = make_eviction_policy();
  for (int i = 0; i < 1000; ++i) {
    policy->queued(kShared, seconds(i));
    policy->returned(kShared, seconds(70));
  }
  EXPECT_TRUE(policy->spares_oldest(kShared, 20, seconds(20)))
      << "all could stay 20 s, and come back after 70";
  EXPECT_FALSE(policy->spares_oldest(kShared, 20, seconds(129))) << "it had its time";
  EXPECT_FALSE(policy->spares_oldest(kShared, 200, seconds(100)))
      << "there is room for all until they come back";
  EXPECT_FALSE(policy->spares_oldest(kSingle, 20, seconds(20)));
  EXPECT_FALSE(policy->spares_oldest(kBoth, 20, seconds(20)));
  for (int i = 0; i < 3000; ++i) policy->returned(kShared, seconds(3));
  EXPECT_FALSE(policy->spares_oldest(kShared, 20, seconds(20))) << "those that come back do so at once";
  EXPECT_FALSE(tools::make_cache_policy("forks")->spares_oldest(kShared, 20, seconds(20)));
}

TEST(EvictionPolicies, ReturnsSparesNoneWithoutObservations) {
  EXPECT_FALSE(make_eviction_policy()->spares_oldest(kShared, 20, seconds(20)));
}

/// Spares the oldest entry of one kind until it is 100 s old.
class Sparing : public EvictionPolicy {
 public:
  double patience(EntryKind) const override { return 1; }
  bool spares_oldest(EntryKind kind, std::size_t, Time unused) const override {
    return kind == kShared && unused < seconds(100);
  }
};

TEST(EvictionQueue, EvictsSecondNewestIfTheOldestIsSpared) {
  const Sparing policy;
  EvictionQueue queue({}, policy);
  CacheEntry entries[4];
  for (int i = 0; i < 4; ++i) {
    entries[i].last_use = seconds(10 * i);
    entries[i].use_order = i;
    entries[i].kind = kShared;
    queue.add(entries[i]);
  }
  EXPECT_EQ(queue.first(seconds(50), true), &entries[2]) << "the newest may be only just made";
  queue.remove(entries[2]);
  EXPECT_EQ(queue.first(seconds(50), true), &entries[1]);
  EXPECT_EQ(queue.first(seconds(100), true), &entries[0]) << "its time is over";
  queue.remove(entries[1]);
  EXPECT_EQ(queue.first(seconds(50), true), &entries[0]) << "of two the older goes";
}

}  // namespace
}  // namespace reprise::actors
