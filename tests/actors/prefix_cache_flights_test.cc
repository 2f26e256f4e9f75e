// Flights, paths and namespaces: how long they are remembered without a snapshot.
#include "tests/actors/cache_fixture.h"

namespace reprise::actors {
namespace {

using PrefixCacheFlights = CacheFixture;

TEST_F(PrefixCacheFlights, ALeaderIsWorthWaitingFor) {
  options.worth_waiting = 3;
  const FlightId flight = cache().begin_flight("", run_of(0, 10), now());
  const auto leader = cache().lead("", run_of(0, 5) + List{99, 98});
  ASSERT_TRUE(leader);
  EXPECT_EQ(leader->flight, flight);
  EXPECT_EQ(leader->at, 5u);
  EXPECT_EQ(cache().lead("", run_of(0, 10))->at, 9u);  // the last token is always computed
  EXPECT_EQ(cache().lead("", run_of(0, 20))->at, 10u);
  EXPECT_FALSE(cache().lead("", run_of(0, 2) + List{99}));  // 2 < 3
  cache().insert("", run_of(0, 3), entry(3), now());
  EXPECT_FALSE(cache().lead("", run_of(0, 5) + List{99, 98}));  // 5 - 3 < 3
  EXPECT_TRUE(cache().lead("", run_of(0, 6) + List{99, 98}));
  cache().end_flight(flight);
  EXPECT_FALSE(cache().lead("", run_of(0, 10)));
}

TEST_F(PrefixCacheFlights, TheOneThatSharesMostLeads) {
  options.worth_waiting = 1;
  const FlightId a = cache().begin_flight("", List{1, 2, 3, 4}, now());
  const FlightId b = cache().begin_flight("", List{1, 2, 3, 5, 6}, now());
  EXPECT_EQ(cache().lead("", List{1, 2, 3, 5, 7})->flight, b);
  EXPECT_EQ(cache().lead("", List{1, 2, 3, 7})->flight, a);
  const FlightId again = cache().begin_flight("", List{1, 2, 3, 4}, now());
  EXPECT_EQ(cache().lead("", List{1, 2, 3, 4})->flight, a);
  cache().end_flight(a);
  EXPECT_EQ(cache().lead("", List{1, 2, 3, 4})->flight, again);
  EXPECT_EQ(cache().stats().flights, 2u);
}

TEST_F(PrefixCacheFlights, OneInFlightFollowsOlderOnesAlone) {
  options.worth_waiting = 1;
  const FlightId a = cache().begin_flight("", List{1, 2, 3, 4}, now());
  const FlightId b = cache().begin_flight("", List{1, 2, 3, 5}, now());
  const FlightId c = cache().begin_flight("", List{1, 2, 6}, now());
  const FlightId d = cache().begin_flight("", List{1, 2, 3, 4}, now());
  EXPECT_FALSE(cache().lead("", List{1, 2, 3, 4}, a, {}));
  EXPECT_EQ(cache().lead("", List{1, 2, 3, 5}, b, {})->flight, a);
  EXPECT_FALSE(cache().lead("", List{1, 2, 3, 5}, b, std::vector{a}));
  EXPECT_EQ(cache().lead("", List{1, 2, 6}, c, std::vector{a})->flight, b);
  EXPECT_EQ(cache().lead("", List{1, 2, 6}, c, std::vector{a})->at, 2u);
  EXPECT_EQ(cache().lead("", List{1, 2, 3, 4}, d, {})->flight, a);
  EXPECT_EQ(cache().lead("", List{1, 2, 3, 4}, d, std::vector{a})->flight, b);
  EXPECT_EQ(cache().lead("", List{1, 2, 3, 4}, d, std::vector{a, b})->flight, c);
}

TEST_F(PrefixCacheFlights, OnAGridLeadersCheckpointOnIt) {
  options.worth_waiting = 1;
  options.grid = 4;
  cache().begin_flight("", run_of(0, 10), now());
  EXPECT_EQ(cache().lead("", run_of(0, 10))->at, 8u);
  EXPECT_EQ(cache().lead("", run_of(0, 7) + List{99})->at, 4u);
  EXPECT_FALSE(cache().lead("", run_of(0, 3) + List{99}));
}

TEST_F(PrefixCacheFlights, APathStaysAfterItsFlight) {
  see({1, 2, 3});
  EXPECT_EQ(look({1, 2, 3, 4}).known, 3u);
  EXPECT_EQ(cache().stats().path_tokens, 3u);
}

TEST_F(PrefixCacheFlights, PathsThatNobodyWalksGoFirst) {
  options.max_path_tokens = 9;
  see({1, 1, 1});
  see({2, 2, 2});
  see({3, 3, 3});
  look({1, 1, 1});
  see({4, 4, 4});
  EXPECT_EQ(look({2, 2, 2}).known, 0u);
  EXPECT_EQ(look({1, 1, 1}).known, 3u);
  EXPECT_EQ(cache().stats().path_tokens, 9u);
}

TEST_F(PrefixCacheFlights, PathsOfEntriesAndFlightsStay) {
  options.max_path_tokens = 4;
  const EntryId entry = put({1, 1, 1});
  see({1, 1, 1, 5, 5, 5});  // it ends at once
  EXPECT_EQ(look({1, 1, 1, 5}).known, 3u);
  const FlightId flight = cache().begin_flight("", List{2, 2, 2}, now());
  EXPECT_EQ(cache().stats().path_tokens, 6u);
  cache().end_flight(flight);
  EXPECT_EQ(cache().stats().path_tokens, 3u);
  EXPECT_EQ(look({2, 2, 2}).reason, MissReason::kNeverSeen);
  cache().remove(entry, MissReason::kEvicted);
  EXPECT_EQ(look({1, 1, 1, 1}).reason, MissReason::kEvicted);
  see({3, 3, 3});
  EXPECT_EQ(look({1, 1, 1, 1}).reason, MissReason::kNeverSeen);  // the tombstone was removed with the path
}

TEST_F(PrefixCacheFlights, ATooLongPromptGoesByItself) {
  options.max_path_tokens = 4;
  see({1, 1, 1});
  see({2, 2, 2, 2, 2});
  EXPECT_EQ(cache().stats().path_tokens, 0u);
  EXPECT_EQ(cache().stats().namespaces, 0u);
}

TEST_F(PrefixCacheFlights, NamespacesHaveALimit) {
  options.max_namespaces = 2;
  const auto see_in = [&](const char* name) {
    cache().end_flight(cache().begin_flight(name, List{1, 2, 3}, now()));
  };
  see_in("a");
  see_in("b");
  EXPECT_EQ(cache().lookup("a", List{1, 2, 3}, 0, now()).known, 3u);
  see_in("c");
  EXPECT_EQ(cache().stats().namespaces, 2u);
  EXPECT_EQ(cache().lookup("b", List{1, 2, 3}, 0, now()).known, 0u);
  EXPECT_EQ(cache().lookup("a", List{1, 2, 3}, 0, now()).known, 3u);
  // Those with entries or flights stay.
  cache().insert("a", List{1, 2}, entry(2), now());
  const FlightId flight = cache().begin_flight("c", List{1, 2, 3}, now());
  see_in("d");
  EXPECT_EQ(cache().stats().namespaces, 2u);
  EXPECT_EQ(cache().lookup("d", List{1, 2, 3}, 0, now()).known, 0u);
  const EntryId in_e = cache().insert("e", List{1, 2}, entry(2), now()).entry;
  EXPECT_EQ(cache().stats().namespaces, 3u);
  EXPECT_TRUE(cache().remove(in_e, MissReason::kEvicted));
  EXPECT_EQ(cache().stats().namespaces, 2u);
  cache().end_flight(flight);
  EXPECT_EQ(cache().lookup("c", List{1, 2, 3}, 0, now()).known, 3u);
}

TEST_F(PrefixCacheFlights, AnEmptyPromptFlies) {
  const FlightId flight = cache().begin_flight("", {}, now());
  EXPECT_FALSE(cache().lead("", List{1, 2}));
  cache().end_flight(flight);
  EXPECT_EQ(cache().stats().namespaces, 0u);
}

}  // namespace
}  // namespace reprise::actors
