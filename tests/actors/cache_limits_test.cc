// Minimum lengths, limits per conversation, and their counters.
#include "actors/cache/cache_settings.h"
#include "actors/cache/checkpoint_plan.h"
#include "actors/cache/registry_figures.h"
#include "tests/actors/cache_fixture.h"

namespace reprise::actors {
namespace {

using CacheLimits = CacheFixture;

TEST_F(CacheLimits, LibraryAndServerHaveOneTimeToLive) {
  EXPECT_EQ(PrefixCacheOptions{}.ttl, CacheTime::zero())
      << "cache.ttl of the server is 0 where nobody says otherwise";
  put({1, 1});
  EXPECT_TRUE(cache().expire(std::chrono::hours(24 * 365)).empty());
}

TEST_F(CacheLimits, AConversationHasItsShareAndNoMore) {
  options.max_per_conversation = 3;
  const auto add = [&](TokenId token, Conversation conversation) {
    return cache().insert("", List{token, token}, entry(2, Origin::kTool, conversation, token), now());
  };
  const EntryId first = add(1, 7).entry;
  const EntryId second = add(2, 7).entry;
  const EntryId elsewhere = add(3, 8).entry;
  const EntryId third = add(4, 7).entry;
  look({1, 1, 1});  // used last: the second is evicted first
  const std::uint64_t goes = cache().find(second)->snapshot;
  const Inserted fourth = add(5, 7);
  EXPECT_EQ(fourth.superseded, std::vector<std::uint64_t>{goes});
  EXPECT_FALSE(cache().find(second));
  EXPECT_TRUE(cache().find(first) && cache().find(third) && cache().find(elsewhere) &&
              cache().find(fourth.entry));
  EXPECT_EQ(cache().stats().capped, 1U);
  EXPECT_EQ(cache().stats().evicted, 0U) << "nobody else needed the room";
  EXPECT_EQ(look({2, 2, 2}).reason, MissReason::kEvicted);
  cache().check();
}

TEST_F(CacheLimits, EntriesWithoutConversationAreNotLimited) {
  options.max_per_conversation = 1;
  for (TokenId token = 1; token <= 5; ++token) put({token, token});
  EXPECT_EQ(cache().stats().entries, 5U);
}

TEST_F(CacheLimits, OneNameInTwoNamespacesIsTwoConversations) {
  options.max_per_conversation = 1;
  const auto add = [&](const char* name_space, TokenId token) {
    return cache().insert(name_space, List{token, token}, entry(2, Origin::kTool, 7, token), now()).entry;
  };
  const EntryId victim = add("somebody", 1);
  add("attacker", 2);
  add("attacker", 3);
  EXPECT_TRUE(cache().find(victim));
  EXPECT_EQ(cache().stats().entries, 2U);
}

TEST_F(CacheLimits, LeasedAndPinnedOnesStayOverTheCap) {
  options.max_per_conversation = 1;
  NewEntry pinned = entry(2, Origin::kTool, 7, 1);
  pinned.pinned = true;
  cache().insert("", List{1, 1}, pinned, now());
  cache().insert("", List{2, 2}, entry(2, Origin::kTool, 7, 2), now());
  ASSERT_TRUE(cache().lookup("", List{2, 2, 2}, 0, now()).restore);  // the lease stays
  EXPECT_TRUE(cache().insert("", List{3, 3}, entry(2, Origin::kTool, 7, 3), now()).superseded.empty());
  EXPECT_EQ(cache().stats().entries, 3U);
  cache().check();
}

TEST_F(CacheLimits, ReplyEntriesAreThinnedToStayFarApart) {
  options.max_in_replies = 3;
  const List reply = run_of(1, 1000);
  const auto add = [&](std::uint32_t length) {
    cache().insert("", reply, entry(length, Origin::kReply, 7, 1), now());
  };
  const auto kept = [&] {
    std::vector<std::uint32_t> lengths;
    for (std::uint32_t length = 100; length <= 1000; length += 100) {
      if (cache().lookup("", List(reply.begin(), reply.begin() + length) + List{5000}, length, now()).restore)
        lengths.push_back(length);
    }
    cache().clear();
    return lengths;
  };
  for (std::uint32_t length = 100; length <= 800; length += 100) add(length);
  EXPECT_EQ(cache().stats().capped, 5U);
  EXPECT_EQ(cache().stats().entries, 3U);
  const std::vector<std::uint32_t> spread = kept();
  ASSERT_EQ(spread.size(), 3U);
  EXPECT_EQ(spread.back(), 800U) << "the newest";
  EXPECT_LE(spread.front(), 400U);
}

TEST_F(CacheLimits, EntryRecreatedSoonAfterEvictionIsThrashed) {
  cache().remove(put({1, 1}), MissReason::kEvicted);
  put({1, 1});
  EXPECT_EQ(cache().stats().thrashed, 1U);
  cache().remove(put({2, 2}), MissReason::kExpired);
  put({2, 2});
  EXPECT_EQ(cache().stats().thrashed, 1U) << "its time was over";
  cache().remove(put({3, 3}), MissReason::kEvicted);
  for (std::uint64_t i = 0; i < kThrashWindow; ++i) look({9, 9});
  put({3, 3});
  EXPECT_EQ(cache().stats().thrashed, 1U) << "long ago";
}

TEST(CacheThresholds, AStateOfManyBytesMustSaveSomeTokens) {
  const auto min_tokens_for = [](std::uint64_t slot_bytes) {
    return CheckpointRules::of({.slot_bytes = slot_bytes}).min_tokens;
  };
  EXPECT_EQ(min_tokens_for(0), 1U);
  EXPECT_EQ(min_tokens_for(233'472), 1U) << "the built-in model";
  EXPECT_EQ(min_tokens_for(21'000'000), 11U) << "0.8B";
  EXPECT_EQ(min_tokens_for(154'000'000), 64U) << "27B";
  EXPECT_EQ(min_tokens_for(UINT64_MAX), 64U);
  EXPECT_EQ(CheckpointRules::of({.any_token = true, .slot_bytes = 154'000'000}).min_tokens, 1U);
}

TEST(CacheThresholds, PositionsBelowTheMinimumAreNotPlanned) {
  const List prompt(100, 5);
  const protocol::MessageBorders borders{
      .first_user = 30, .last_user = 63, .after_last_user = 64, .last_opener = 90};
  const std::vector<std::uint32_t> wanted = {10};
  const std::vector<BreakpointPosition> breakpoints = {{.at = 20}};
  EXPECT_EQ(plan_checkpoints(prompt, borders, 0, 40, wanted, {.min_tokens = 64}, breakpoints),
            (std::vector<PlannedCheckpoint>{{10, Origin::kBranch},
                                            {20, Origin::kBreakpoint},
                                            {64, Origin::kHistory},
                                            {90, Origin::kHistory},
                                            {99, Origin::kPromptEnd}}))
      << "who waits for a place, or asks for it, gets it";
  EXPECT_TRUE(plan_checkpoints(List(2, 5), {}, 0, {}, {}, {.min_tokens = 64}).empty());
  EXPECT_TRUE(plan_checkpoints(List(64, 5), {}, 0, {}, {}, {.min_tokens = 64}).empty());
  EXPECT_EQ(plan_checkpoints(List(65, 5), {}, 0, {}, {}, {.min_tokens = 64}).size(), 1U);
}

TEST(CacheThresholds, RecurrentStateMayHaveLimitsOfItsOwn) {
  RegistrySettings settings;
  settings.cache.ttl = std::chrono::seconds(100);
  settings.cache.max_entries = 50;
  settings.recurrent_ttl = std::chrono::seconds(10);
  settings.recurrent_max_entries = 5;
  const RegistrySettings attention = settings_for(settings, true);
  EXPECT_EQ(attention.cache.ttl, std::chrono::seconds(100));
  EXPECT_EQ(attention.cache.max_entries, 50U);
  const RegistrySettings recurrent = settings_for(settings, false);
  EXPECT_EQ(recurrent.cache.ttl, std::chrono::seconds(10));
  EXPECT_EQ(recurrent.cache.max_entries, 5U);
  settings.recurrent_ttl = CacheTime::zero();
  EXPECT_EQ(settings_for(settings, false).cache.ttl, std::chrono::seconds(100));
}

TEST(CacheCounters, ARequestIsExactPartialOrMissed) {
  RegistryFigures figures;
  const auto count = [&](std::uint32_t prompt, std::uint32_t restored, std::uint32_t grid) {
    figures.count_request({.prompt_tokens = prompt, .restored_tokens = restored}, grid);
  };
  count(100, 99, 1);
  count(100, 64, 64);
  count(100, 98, 1);
  count(200, 64, 64);
  count(100, 0, 1);
  count(1, 0, 1);
  count(0, 0, 1);
  EXPECT_EQ(figures.exact.load(), 2U);
  EXPECT_EQ(figures.partial.load(), 2U);
  EXPECT_EQ(figures.missed.load(), 3U);
}

}  // namespace
}  // namespace reprise::actors
