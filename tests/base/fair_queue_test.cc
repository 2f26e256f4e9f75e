// Owners take turns, and one whose share is full is refused.

#include "base/fair_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace reprise {
namespace {

using Queue = FairQueue<int>;

std::vector<int> all_of(Queue& queue) {
  std::vector<int> order;
  while (auto taken = queue.take()) {
    order.push_back(taken->item);
    queue.ended(taken->owner);
  }
  return order;
}

TEST(FairQueue, OwnersTakeTurns) {
  Queue queue({.all = 100, .of_one = 50, .running_of_one = 1});
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(queue.push("a", i));
  for (int i = 10; i < 12; ++i) EXPECT_FALSE(queue.push("b", i));
  EXPECT_FALSE(queue.push("c", 20));
  EXPECT_EQ(all_of(queue), (std::vector<int>{0, 10, 20, 1, 11, 2, 3, 4}));
  EXPECT_EQ(queue.owners(), 0U);
  EXPECT_EQ(queue.waiting(), 0U);
  EXPECT_EQ(queue.running(), 0U);
}

TEST(FairQueue, NobodyHasAllWorkers) {
  Queue queue({.all = 100, .of_one = 50, .running_of_one = 2});
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(queue.push("a", i));
  EXPECT_TRUE(queue.take());
  EXPECT_TRUE(queue.take());
  EXPECT_FALSE(queue.take()) << "the third worker is for others";
  EXPECT_FALSE(queue.push("b", 10));
  EXPECT_EQ(queue.take()->item, 10);
  queue.ended("a");
  EXPECT_EQ(queue.take()->item, 2);
}

TEST(FairQueue, TheOneThatFillsItsShareIsTurnedAway) {
  Queue queue({.all = 100, .of_one = 3, .running_of_one = 1});
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(queue.push("a", i));
  EXPECT_EQ(queue.push("a", 3), 3);
  EXPECT_FALSE(queue.push("b", 10));
  EXPECT_EQ(queue.take()->item, 0);
  EXPECT_EQ(queue.push("a", 4), 4) << "what runs counts as well";
  queue.ended("a");
  EXPECT_FALSE(queue.push("a", 5));
}

TEST(FairQueue, WhenAllIsFullTheBiggestLosesItsNewest) {
  Queue queue({.all = 4, .of_one = 4, .running_of_one = 1});
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(queue.push("a", i));
  EXPECT_EQ(queue.push("b", 10), 3);
  EXPECT_EQ(queue.push("b", 11), 2);
  EXPECT_EQ(queue.push("b", 12), 12) << "it would have more than the biggest";
  EXPECT_EQ(queue.push("c", 20), 1);
  EXPECT_EQ(queue.push("a", 4), 4) << "it would have as many as the biggest";
  EXPECT_EQ(queue.waiting(), 4U);
  EXPECT_EQ(all_of(queue), (std::vector<int>{0, 10, 20, 11}));
}

TEST(FairQueue, WithoutNamesThereIsOneBoundForAll) {
  Queue queue({.all = 4, .of_one = 1, .running_of_one = 1});
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(queue.push("", i));
  EXPECT_EQ(queue.push("", 4), 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.take()->item, i);
  EXPECT_EQ(queue.push("", 5), 5);
  queue.ended("");
  EXPECT_FALSE(queue.push("", 5));
}

}  // namespace
}  // namespace reprise
