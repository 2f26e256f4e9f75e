// Removal of entries: superseded, evicted, expired, lost; and protection from it.
#include "tests/actors/cache_fixture.h"

namespace reprise::actors {
namespace {

using PrefixCacheEviction = CacheFixture;
using Ids = std::vector<EntryId>;

TEST_F(PrefixCacheEviction, TheLeastRecentlyUsedGoesFirst) {
  const EntryId a = put({1, 1});
  const EntryId b = put({2, 2});
  const EntryId c = put({3, 3});
  look({1, 1, 1});
  EXPECT_EQ(evict_all(), (Ids{b, c, a}));
  EXPECT_EQ(cache().stats().evicted, 3u);
  EXPECT_EQ(cache().stats().entries, 0u);
  EXPECT_EQ(look({2, 2, 2}).reason, MissReason::kEvicted);
}

TEST_F(PrefixCacheEviction, EqualTimesKeepTheOrderOfUse) {
  const CacheTime same = now();
  Ids ids;
  for (TokenId token = 0; token < 5; ++token) {
    ids.push_back(cache().insert("", List{token, 1}, entry(2), same).entry);
  }
  EXPECT_FALSE(cache().release(cache().lookup("", List{0, 1, 2}, 0, same).restore->entry));
  EXPECT_EQ(evict_all(), (Ids{ids[1], ids[2], ids[3], ids[4], ids[0]}));
}

TEST_F(PrefixCacheEviction, LeasedOnesStay) {
  const EntryId a = put({1, 1});
  const EntryId b = put({2, 2});
  ASSERT_EQ(cache().lookup("", List{1, 1, 1}, 0, now()).restore->entry, a);
  ASSERT_EQ(cache().lookup("", List{1, 1, 1}, 0, now()).restore->entry, a);
  EXPECT_EQ(cache().stats().leases, 2u);
  EXPECT_FALSE(cache().remove(a, MissReason::kEvicted));
  EXPECT_EQ(evict_all(), Ids{b});
  EXPECT_FALSE(cache().release(a));
  EXPECT_FALSE(cache().least_valuable(now(), true));
  EXPECT_FALSE(cache().release(a));
  EXPECT_EQ(evict_all(), Ids{a});
  EXPECT_FALSE(cache().remove(a, MissReason::kEvicted));
  EXPECT_FALSE(cache().release(a));  // no longer known
}

TEST_F(PrefixCacheEviction, WrongStateIsRemovedWithItsDescendants) {
  const EntryId before = put({1, 1});
  const EntryId wrong = put({1, 1, 2});
  const EntryId after = put({1, 1, 2, 3, 4});
  const EntryId other_way = put({1, 1, 2, 7});
  const EntryId elsewhere = put({1, 1, 5});
  ASSERT_EQ(cache().lookup("", List{1, 1, 2, 7, 7}, 0, now()).restore->entry, other_way);
  const std::uint64_t leased = cache().find(other_way)->snapshot;
  const std::vector<std::uint64_t> expected = {cache().find(wrong)->snapshot, cache().find(after)->snapshot};
  EXPECT_EQ(cache().remove_from("", List{1, 1, 2}, MissReason::kCorrupt), expected);
  EXPECT_EQ(look({1, 1, 2, 3, 4, 5}).reason, MissReason::kCorrupt);
  EXPECT_TRUE(cache().find(before) && cache().find(elsewhere));
  EXPECT_EQ(cache().release(other_way), leased) << "its snapshot goes with its last lease";
  EXPECT_TRUE(cache().remove_from("", List{1, 1, 2}, MissReason::kCorrupt).empty());
  EXPECT_TRUE(cache().remove_from("nobody", List{1}, MissReason::kCorrupt).empty());
  cache().check();
}

TEST_F(PrefixCacheEviction, PinnedOnesGoLast) {
  options.max_pinned = 1;
  NewEntry pinned = entry(2);
  pinned.pinned = true;
  const EntryId a = cache().insert("", List{1, 1}, pinned, now()).entry;
  const EntryId b = cache().insert("", List{2, 2}, pinned, now()).entry;  // beyond max_pinned
  const EntryId c = put({3, 3});
  EXPECT_TRUE(cache().find(a)->pinned);
  EXPECT_FALSE(cache().find(b)->pinned);
  EXPECT_EQ(cache().stats().pinned, 1u);
  EXPECT_EQ(evict_all(false), (Ids{b, c}));
  EXPECT_EQ(evict_all(true), Ids{a});
  EXPECT_EQ(cache().stats().pinned, 0u);
  put({4, 4});
  const Inserted again = cache().insert("", List{4, 4}, pinned, now());
  EXPECT_TRUE(again.already_there);
  EXPECT_TRUE(cache().find(again.entry)->pinned);
}

TEST_F(PrefixCacheEviction, APinLastsForItsTime) {
  const EntryId a = put({1, 1});
  const EntryId b = put({2, 2});
  EXPECT_EQ(cache().pin("", List{1, 1, 9}, std::chrono::seconds(20)).tokens, 2U)
      << "the deepest that there is";
  EXPECT_EQ(cache().pin("", List{1, 1, 9}, std::chrono::seconds(10)).tokens, 2U) << "the longer time counts";
  EXPECT_EQ(cache().pin("", List{3}, std::chrono::seconds(20)).tokens, 0U);
  EXPECT_EQ(cache().pin("elsewhere", List{1, 1}, std::chrono::seconds(20)).tokens, 0U);
  EXPECT_TRUE(cache().expire(std::chrono::seconds(19)).empty());
  EXPECT_EQ(cache().stats().pinned, 1U);
  EXPECT_EQ(cache().least_valuable(std::chrono::seconds(19), true)->id, b);
  EXPECT_TRUE(cache().expire(std::chrono::seconds(20)).empty()) << "the pin ends, its entry does not";
  EXPECT_EQ(cache().stats().pinned, 0U);
  EXPECT_EQ(evict_all(), (Ids{a, b}));
}

protocol::SharedPinTicket ticket_of(const std::string& tenant) {
  return std::make_shared<const protocol::PinTicket>(protocol::PinTicket{.tenant = tenant});
}

TEST_F(PrefixCacheEviction, ATenantHasFewPinsInAllItsNamespaces) {
  options.max_pinned = 6;
  options.max_pinned_of_tenant = 4;
  for (TokenId token = 0; token < 6; ++token) {
    for (const char* space : {"one", "one, salted", "two"}) {
      cache().insert(space, List{token, token}, entry(2), now());
    }
  }
  std::vector<protocol::SharedPinTicket> held;
  std::string problem;
  const auto pins = [&](const char* tenant, const char* space) {
    int pinned = 0;
    for (TokenId token = 0; token < 6; ++token) {
      held.push_back(ticket_of(tenant));
      const protocol::Pinned one =
          cache().pin(space, List{token, token}, std::chrono::seconds(1000), held.back());
      pinned += one.tokens > 0 ? 1 : 0;
      problem = one.problem;
    }
    return pinned;
  };
  EXPECT_EQ(pins("one", "one"), 4);
  EXPECT_EQ(problem, "the limit of a tenant is 4 pinned snapshots of a model, over all its cache_salts");
  EXPECT_EQ(pins("one", "one, salted"), 0) << "another salt is the same tenant's";
  EXPECT_EQ(pins("two", "two"), 2) << "six in all";
  EXPECT_EQ(problem, "the limit of all tenants together is 6 pinned snapshots of a model");
  EXPECT_EQ(cache().remove_from("one", List{0, 0}, MissReason::kCorrupt).size(), 1U);
  EXPECT_EQ(pins("two", "two"), 1) << "a pin goes with its entry";
  EXPECT_EQ(cache().pin("nobody's", List{1, 1}, std::chrono::seconds(1000)).problem,
            "no snapshot of this prompt was kept");
  cache().clear();
  EXPECT_EQ(cache().stats().pinned, 0U);
  cache().check();
}

TEST_F(PrefixCacheEviction, PinsAChatAfterItsLastMessage) {
  const auto keep = [&](std::uint32_t length, Origin origin) {
    NewEntry made = entry(length);
    made.origin = origin;
    return cache().insert("", List{1, 2, 3, 4, 5}, made, now()).entry;
  };
  const EntryId history = keep(2, Origin::kHistory);
  const EntryId spaced = keep(3, Origin::kSpaced);
  keep(4, Origin::kPromptEnd);
  EXPECT_EQ(cache().pin("", List{1, 2, 3, 4, 5}, std::chrono::seconds(1000)).tokens, 2U);
  EXPECT_TRUE(cache().find(history)->pinned);
  EXPECT_EQ(cache().pin("", List{1, 2, 3}, std::chrono::seconds(1000)).tokens, 3U);
  EXPECT_TRUE(cache().find(spaced)->pinned);
}

TEST_F(PrefixCacheEviction, APinEndsWithItsTicket) {
  const EntryId a = put({1, 1});
  const EntryId longer = put({1, 1, 1});
  auto ticket = ticket_of("t");
  const auto pin = [&](List tokens) {
    return cache().pin("", tokens, std::chrono::seconds(1000), ticket).tokens;
  };
  EXPECT_EQ(pin({1, 1}), 2U);
  EXPECT_EQ(pin({1, 1, 1}), 2U) << "it keeps what it has";
  EXPECT_EQ(cache().stats().pinned, 1U);
  EXPECT_EQ(cache().pin("", List{1, 1, 1}, std::chrono::seconds(1000), ticket, true).tokens, 3U);
  EXPECT_FALSE(cache().find(a)->pinned) << "it has moved";
  EXPECT_TRUE(cache().find(longer)->pinned);
  EXPECT_EQ(cache().pin("", List{2}, std::chrono::seconds(1000), ticket, true).tokens, 0U);
  EXPECT_TRUE(cache().find(longer)->pinned) << "there was nothing to move to";
  EXPECT_EQ(cache().pin("", List{1, 1}, std::chrono::seconds(1000), ticket, true).tokens, 2U);
  EXPECT_EQ(cache().stats().pinned, 1U);
  auto other = ticket_of("t");
  EXPECT_EQ(cache().pin("", List{1, 1}, std::chrono::seconds(1000), other).tokens, 2U);
  ticket.reset();
  cache().expire(std::chrono::seconds(1));
  EXPECT_TRUE(cache().find(a)->pinned) << "another name has it";
  other.reset();
  cache().expire(std::chrono::seconds(1));
  EXPECT_FALSE(cache().find(a)->pinned);
  EXPECT_FALSE(cache().find(longer)->pinned);
  EXPECT_EQ(cache().stats().pinned, 0U);
  cache().check();
}

TEST_F(PrefixCacheEviction, TimeToLive) {
  options.ttl = std::chrono::seconds(10);
  const EntryId a = put({1, 1});  // at 1
  const EntryId b = put({2, 2});  // at 2
  look({1, 1, 1});                // at 3
  NewEntry pinned = entry(2);
  pinned.pinned = true;
  const EntryId c = cache().insert("", List{3, 3}, pinned, now()).entry;  // at 4
  const auto at = [](int seconds) { return CacheTime(std::chrono::seconds(seconds)); };
  EXPECT_TRUE(cache().expire(at(12)).empty());
  EXPECT_EQ(cache().least_valuable(at(13), false)->id, b);
  EXPECT_EQ(cache().least_valuable(at(100), false)->id, b);
  EXPECT_EQ(cache().expire(at(13)), (std::vector<std::uint64_t>{102}));
  EXPECT_FALSE(cache().find(b));
  EXPECT_EQ(look({2, 2, 2}).reason, MissReason::kExpired);
  ASSERT_TRUE(cache().lookup("", List{1, 1, 1}, 0, at(13)).restore);
  EXPECT_EQ(cache().expire(at(100)), (std::vector<std::uint64_t>{103}));  // the other is leased
  EXPECT_FALSE(cache().find(c));
  EXPECT_FALSE(cache().release(a));
  EXPECT_EQ(cache().expire(at(100)), (std::vector<std::uint64_t>{101}));
  EXPECT_EQ(cache().stats().expired, 3u);
}

TEST_F(PrefixCacheEviction, AnEntryMayHaveAShorterTimeOfItsOwn) {
  options.ttl = std::chrono::seconds(100);
  const auto at = [](int seconds) { return CacheTime(std::chrono::seconds(seconds)); };
  NewEntry brief = entry(2);  // 101
  brief.ttl = std::chrono::seconds(10);
  const EntryId a = cache().insert("", List{1, 1}, brief, at(1)).entry;
  NewEntry longer = entry(2);  // 102
  longer.ttl = std::chrono::seconds(20);
  cache().insert("", List{2, 2}, longer, at(1));
  const EntryId c = cache().insert("", List{3, 3}, entry(2), at(1)).entry;  // 103
  EXPECT_TRUE(cache().expire(at(11)).empty());
  EXPECT_FALSE(cache().release(cache().lookup("", List{1, 1, 1}, 0, at(11)).restore->entry))
      << "a use counts";
  EXPECT_TRUE(cache().expire(at(21)).empty());
  EXPECT_EQ(cache().expire(at(22)), (std::vector<std::uint64_t>{102, 101}));
  EXPECT_FALSE(cache().find(a));
  EXPECT_TRUE(cache().find(c));
  // The longer of two TTLs for one position wins; no TTL is the longest.
  const EntryId d = cache().insert("", List{4, 4}, brief, at(30)).entry;
  cache().insert("", List{4, 4}, entry(2), at(30));
  EXPECT_TRUE(cache().expire(at(60)).empty());
  EXPECT_TRUE(cache().find(d));
  cache().check();
}

TEST_F(PrefixCacheEviction, WithoutTtlEntriesNeverExpire) {
  options.ttl = CacheTime::zero();
  put({1, 1});
  EXPECT_TRUE(cache().expire(std::chrono::hours(100'000)).empty());
}

TEST_F(PrefixCacheEviction, SecondInsertAtAPositionUsesTheFirst) {
  const EntryId a = put({1, 1});
  const EntryId b = put({2, 2});
  const Inserted again = cache().insert("", List{1, 1, 1}, entry(2, Origin::kBranch), now());
  EXPECT_TRUE(again.already_there);
  EXPECT_EQ(again.entry, a);
  EXPECT_EQ(cache().find(a)->snapshot, 101u);
  EXPECT_EQ(cache().find(a)->origin, Origin::kPromptEnd);
  EXPECT_EQ(cache().find(a)->hits, 0u);
  EXPECT_EQ(cache().stats().inserts_by_origin[static_cast<int>(Origin::kBranch)], 0u);
  EXPECT_EQ(evict_all(), (Ids{b, a}));  // it counts as used
}

TEST_F(PrefixCacheEviction, AConversationMovesOn) {
  const List prompt = run_of(0, 20);
  const auto put_at = [&](std::uint32_t length, Origin origin, Conversation conversation,
                          std::uint64_t request) {
    return cache().insert("", prompt, entry(length, origin, conversation, request), now()).superseded;
  };
  put_at(2, Origin::kSystem, 7, 1);                           // 101
  put_at(4, Origin::kLastUser, 7, 1);                         // 102
  put_at(6, Origin::kHistory, 7, 1);                          // 103
  put_at(8, Origin::kPromptEnd, 8, 2);                        // 104, another conversation
  EXPECT_EQ(put_at(9, Origin::kPromptEnd, 7, 1).size(), 0u);  // 105, the same request
  EXPECT_EQ(put_at(10, Origin::kBranch, 7, 3).size(), 0u);    // 106, supersedes nothing
  EXPECT_EQ(put_at(12, Origin::kTurnEnd, 7, 3), (std::vector<std::uint64_t>{105, 103}));  // 107
  EXPECT_EQ(put_at(11, Origin::kHistory, 7, 4).size(), 0u);  // 108; longer ones stay
  EXPECT_EQ(put_at(15, Origin::kHistory, 0, 5).size(), 0u);  // 109
  EXPECT_EQ(put_at(16, Origin::kHistory, 0, 6).size(), 0u);  // 110; no conversation
  EXPECT_EQ(cache().stats().superseded, 2u);
  EXPECT_EQ(cache().stats().entries, 8u);
  EXPECT_EQ(cache().covered_tokens(), 16u);
}

TEST_F(PrefixCacheEviction, APromptSentAgainKeepsItsEnd) {
  const List prompt = run_of(0, 10);
  const auto ask = [&](const List& asked, std::uint64_t request) {
    const Found found = cache().lookup("", asked, 0, now(), UINT32_MAX, request);
    if (found.restore) {
      EXPECT_FALSE(cache().release(found.restore->entry).has_value());
    }
    return found.restore ? found.restore->at : 0;
  };
  const auto reply = [&](const List& tokens, std::uint64_t request) {
    cache().insert("", tokens, entry(tokens.size(), Origin::kTurnEnd, 7, request), now());
  };
  cache().insert("", prompt, entry(9, Origin::kPromptEnd, 7, 1), now());
  reply(prompt + List{20, 21}, 1);
  for (int request = 2; request < 5; ++request) {
    EXPECT_EQ(ask(prompt, request), 9u);
    reply(prompt + List{20 + request, 21}, request);
  }
  // The next turn restores the last reply, and no longer needs the end of the prompt.
  EXPECT_EQ(ask(prompt + List{24, 21, 30}, 5), 12u);
  reply(prompt + List{24, 21, 30, 31}, 5);
  EXPECT_EQ(ask(prompt, 6), 0u);
}

TEST_F(PrefixCacheEviction, SupersededButNotOnOtherPathsNorPinned) {
  NewEntry pinned = entry(2, Origin::kHistory, 7, 1);
  pinned.pinned = true;
  cache().insert("", List{1, 2}, pinned, now());
  cache().insert("", List{1, 2, 4}, entry(3, Origin::kHistory, 7, 1), now());
  EXPECT_TRUE(
      cache().insert("", List{1, 2, 3, 4}, entry(4, Origin::kHistory, 7, 2), now()).superseded.empty());
}

TEST_F(PrefixCacheEviction, SupersededWhileLeased) {
  const auto in = cache().insert("", List{1, 2}, entry(2, Origin::kHistory, 7, 1), now());
  ASSERT_TRUE(cache().lookup("", List{1, 2, 3}, 0, now()).restore);
  ASSERT_TRUE(cache().lookup("", List{1, 2, 3}, 0, now()).restore);
  EXPECT_TRUE(cache().insert("", List{1, 2, 3}, entry(3, Origin::kHistory, 7, 2), now()).superseded.empty());
  EXPECT_EQ(cache().stats().superseded, 1u);
  EXPECT_EQ(cache().stats().entries, 1u);
  EXPECT_EQ(look({1, 2, 9}).reason, MissReason::kNoCheckpoint);
  EXPECT_FALSE(cache().remove(in.entry, MissReason::kEvicted));
  EXPECT_FALSE(cache().release(in.entry));
  EXPECT_EQ(cache().release(in.entry), 101u);
  EXPECT_FALSE(cache().find(in.entry));
  EXPECT_EQ(cache().stats().leases, 0u);
}

TEST_F(PrefixCacheEviction, WhereStatesCanBeCutOriginsDoNotMatter) {
  options.any_token = true;
  cache().insert("", List{1, 2}, entry(2, Origin::kSystem, 7, 1), now());
  cache().insert("", List{1, 2, 3}, entry(3, Origin::kSystem, 8, 2), now());
  EXPECT_EQ(cache().insert("", List{1, 2, 3, 4}, entry(4, Origin::kSpaced, 7, 3), now()).superseded,
            (std::vector<std::uint64_t>{101}));
}

TEST_F(PrefixCacheEviction, Lost) {
  const EntryId a = put({1, 2});
  put({1, 2, 3, 4});
  put({5, 6});
  ASSERT_TRUE(cache().lookup("", List{1, 2, 3}, 0, now()).restore);
  const FlightId flight = cache().begin_flight("", List{8, 8}, now());
  cache().clear();
  EXPECT_EQ(cache().stats().entries, 0u);
  EXPECT_EQ(cache().stats().leases, 0u);
  EXPECT_EQ(cache().covered_tokens(), 0u);
  EXPECT_FALSE(cache().least_valuable(now(), true));
  EXPECT_FALSE(cache().release(a));
  EXPECT_EQ(look({1, 2, 3}).reason, MissReason::kLost);
  EXPECT_EQ(look({5, 6, 7}).reason, MissReason::kLost);
  put({5, 6});
  EXPECT_EQ(look({5, 6, 7}).reason, MissReason::kNone);
  cache().end_flight(flight);
}

TEST_F(PrefixCacheEviction, TheEntryLimitIsTold) {
  options.max_entries = 2;
  put({1});
  put({2});
  EXPECT_FALSE(cache().over_entry_limit());
  put({3});
  EXPECT_TRUE(cache().over_entry_limit());
}

TEST_F(PrefixCacheEviction, SharedTokensAreCoveredOnce) {
  put(run_of(0, 100));
  const EntryId deep = put(run_of(0, 150));
  put(run_of(0, 120) + List{999});
  EXPECT_EQ(cache().covered_tokens(), 151u);
  cache().remove(deep, MissReason::kEvicted);
  EXPECT_EQ(cache().covered_tokens(), 121u);
  EXPECT_EQ(cache().stats().path_tokens, 151u);
}

TEST_F(PrefixCacheEviction, WherePromptsPartEntriesAgeSlower) {
  policy = std::make_unique<tools::ForksPolicy>();
  for (const TokenId way : {3, 4, 5}) see({1, 2, way});
  for (const TokenId way : {3, 4}) see({7, 7, way});
  const auto at = [](int seconds) { return CacheTime(std::chrono::seconds(seconds)); };
  const auto put_at = [&](int second, const List& tokens, Origin origin = Origin::kSystem) {
    return cache().insert("", tokens, entry(tokens.size(), origin), at(second)).entry;
  };
  const EntryId three_ways = put_at(100, {1, 2});
  const EntryId branch = put_at(108, {8, 8}, Origin::kBranch);
  const EntryId hit = put_at(150, {5, 5});
  EXPECT_FALSE(cache().release(cache().lookup("", List{5, 5, 5}, 0, at(160)).restore->entry));
  const EntryId two_ways = put_at(180, {7, 7});
  // Idle time over patience at 200: 100 / 4, 92 / 4, 40 / 2, 20 / 1; at 300: 50, 48, 70, 120.
  EXPECT_EQ(cache().least_valuable(at(200), true)->id, three_ways);
  Ids order;
  while (const auto victim = cache().least_valuable(at(300), true)) {
    order.push_back(victim->id);
    cache().remove(victim->id, MissReason::kEvicted);
  }
  EXPECT_EQ(order, (Ids{two_ways, hit, three_ways, branch}));
}

TEST_F(PrefixCacheEviction, AGridOfZeroIsRefused) {
  options.grid = 0;
  EXPECT_THROW(cache(), std::invalid_argument);
}

}  // namespace
}  // namespace reprise::actors
