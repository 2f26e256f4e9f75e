// Flights, and states that prove wrong while flights are computing.

#include "actors/cache/flights.h"

#include <gtest/gtest.h>

#include "tests/actors/token_lists.h"

namespace reprise::actors {
namespace {

SharedTokens tokens(std::uint32_t count, TokenId first = 0) {
  TokenList list(count);
  for (std::uint32_t i = 0; i < count; ++i) list[i] = first + static_cast<TokenId>(i);
  return share_tokens(std::move(list));
}

TEST(WrongStates, SpoilOnlyOlderStatesThatContinueThem) {
  WrongStates wrong;
  const WrongStates::Moment before = wrong.now();
  wrong.add("a", tokens(100), 60);
  const SharedTokens same = tokens(200), other = tokens(200, 5);
  const auto first = [](const SharedTokens& list, std::size_t count) {
    return std::span(*list).first(count);
  };
  EXPECT_TRUE(wrong.may_spoil("a", first(same, 60), before));
  EXPECT_TRUE(wrong.may_spoil("a", first(same, 200), before));
  EXPECT_FALSE(wrong.may_spoil("a", first(same, 59), before)) << "it ends before";
  EXPECT_FALSE(wrong.may_spoil("a", first(other, 200), before)) << "other tokens";
  EXPECT_FALSE(wrong.may_spoil("b", first(same, 200), before)) << "another namespace";
  EXPECT_FALSE(wrong.may_spoil("a", first(same, 200), wrong.now())) << "computed since";
}

TEST(WrongStates, AreForgottenWithTheLastOldFlight) {
  WrongStates wrong;
  wrong.add("", tokens(10), 10);
  const WrongStates::Moment between = wrong.now();
  wrong.add("", tokens(10, 3), 10);
  wrong.forget(between);
  EXPECT_EQ(wrong.size(), 1U);
  EXPECT_TRUE(wrong.may_spoil("", *tokens(10, 3), between));
  wrong.forget(wrong.now());
  EXPECT_EQ(wrong.size(), 0U);
}

TEST(WrongStates, BeyondTheLimitOldFlightsKeepNothing) {
  WrongStates wrong;
  const WrongStates::Moment before = wrong.now();
  for (std::size_t i = 0; i < WrongStates::kMax; ++i) wrong.add("", tokens(10), 10);
  EXPECT_FALSE(wrong.may_spoil("elsewhere", *tokens(5, 7), before));
  wrong.add("", tokens(10), 10);
  EXPECT_EQ(wrong.size(), WrongStates::kMax);
  EXPECT_TRUE(wrong.may_spoil("elsewhere", *tokens(5, 7), before)) << "unknown, so it may";
  EXPECT_FALSE(wrong.may_spoil("elsewhere", *tokens(5, 7), before + 1));
}

class FlightsTest : public testing::Test {
 protected:
  Flight& begin(protocol::FlightNumber number) {
    const protocol::Announce announce{.flight = number, .name_space = "", .prompt = tokens(100)};
    return flights_.begin(announce, cache_.peek("", *announce.prompt), CacheTime{0});
  }

  PrefixCache cache_{PrefixCacheOptions{}};
  Flights flights_{cache_};
};

TEST_F(FlightsTest, AFlightIsInTheCacheUntilItLands) {
  Flight& flight = begin(7);
  const FlightId in_cache = flight.in_cache;
  EXPECT_EQ(flights_.number_of(in_cache), 7U);
  EXPECT_EQ(cache_.stats().flights, 1U);
  flights_.pass(flight, 40);
  flights_.pass(flight, 30);
  EXPECT_EQ(flight.passed, 40U);
  flights_.land(flight);
  flights_.land(flight);
  EXPECT_EQ(flights_.number_of(in_cache), 0U);
  EXPECT_EQ(cache_.stats().flights, 0U);
  EXPECT_EQ(flight.passed, UINT32_MAX) << "nobody waits for it any more";
  EXPECT_EQ(flights_.find(7), &flight);
  flights_.end(7);
  flights_.end(7);
  EXPECT_EQ(flights_.find(7), nullptr);
}

TEST_F(FlightsTest, AReplysCheckpointsAreOfTheRequestsFlight) {
  Flight& flight = begin(7);
  EXPECT_EQ(flights_.find(protocol::CheckpointPlan{.flight = 7, .request = 3}), &flight);
  EXPECT_EQ(flights_.find(protocol::CheckpointPlan{.flight = 0, .request = 7}), &flight);
  EXPECT_EQ(flights_.find(protocol::CheckpointPlan{.flight = 8, .request = 7}), nullptr);
  flights_.end(7);
}

TEST_F(FlightsTest, TheEndOfAFlightCancelsItsWaits) {
  Flight& flight = begin(7);
  const runtime::CancelSource ended = flight.ended;
  EXPECT_FALSE(ended.canceled());
  flights_.end(7);
  EXPECT_TRUE(ended.canceled());
}

TEST_F(FlightsTest, WrongStatesAreKeptForThoseInFlight) {
  begin(1);
  flights_.wrong().add("", tokens(100), 50);
  begin(2);
  flights_.end(2);
  EXPECT_EQ(flights_.wrong().size(), 1U) << "the first is older";
  flights_.end(1);
  EXPECT_EQ(flights_.wrong().size(), 0U);
}

}  // namespace
}  // namespace reprise::actors
