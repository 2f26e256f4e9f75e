// In which order the states of a tier go.
#include "actors/tiers/state_order.h"

#include <gtest/gtest.h>

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using protocol::Origin;
using RecordId = StateOrder::RecordId;

RecordId numbered(unsigned char number) {
  RecordId id;
  id.bytes[0] = std::byte{number};
  return id;
}

TEST(StateOrder, WhatWasNotUsedForLongestGoesFirst) {
  StateOrder order;
  EXPECT_FALSE(order.first(0s));
  StateOrder::Place one = order.add(numbered(1), Origin::kPromptEnd, 1s);
  const StateOrder::Place two = order.add(numbered(2), Origin::kSpaced, 2s);
  EXPECT_EQ(order.first(10s), numbered(1));
  order.use(one, false, 3s);
  EXPECT_EQ(order.first(10s), numbered(2)) << "stored once more";
  order.remove(two);
  EXPECT_EQ(order.first(10s), numbered(1));
  order.remove(one);
  EXPECT_FALSE(order.first(10s));
}

TEST(StateOrder, WhereAPromptPartedMayLieFourTimesAsLong) {
  StateOrder order;
  const StateOrder::Place branch = order.add(numbered(1), Origin::kBranch, 0s);
  const StateOrder::Place end = order.add(numbered(2), Origin::kPromptEnd, 80s);
  EXPECT_EQ(order.first(100s), numbered(1)) << "unused for 100 s, more than four times 20";
  EXPECT_EQ(order.first(110s), numbered(2)) << "110 are less than four times 30";
  order.remove(end);
  EXPECT_EQ(order.first(110s), numbered(1));
  order.remove(branch);
}

TEST(StateOrder, WhatWasBroughtFromHereMayLieTwiceAsLong) {
  StateOrder order;
  StateOrder::Place hit = order.add(numbered(1), Origin::kPromptEnd, 0s);
  order.use(hit, true, 10s);
  order.add(numbered(2), Origin::kPromptEnd, 50s);
  EXPECT_EQ(order.first(80s), numbered(1)) << "70 are more than twice 30";
  EXPECT_EQ(order.first(100s), numbered(2)) << "90 are less than twice 50";
  order.use(hit, false, 100s);
  EXPECT_EQ(order.first(500s), numbered(2)) << "it stays one that was brought";
}

}  // namespace
}  // namespace reprise::actors
