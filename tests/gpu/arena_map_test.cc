// Bookkeeping of an address range compared with a map of its units.

#include "gpu/state/arena_map.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace reprise::gpu {
namespace {

constexpr std::size_t kUnit = ArenaMap::kAlignment;

TEST(ArenaMap, TakesFromBothEnds) {
  ArenaMap map(10 * kUnit + 7);
  EXPECT_EQ(map.size(), 10 * kUnit);
  EXPECT_EQ(map.take_low(1), 0U);
  EXPECT_EQ(map.take_low(kUnit), kUnit);
  EXPECT_EQ(map.take_high(kUnit + 1), 8 * kUnit);
  EXPECT_EQ(map.used(), 4 * kUnit);
  EXPECT_EQ(map.largest_free(), 6 * kUnit);
  EXPECT_FALSE(map.take_low(6 * kUnit + 1).has_value());
  EXPECT_EQ(map.take_low(6 * kUnit), 2 * kUnit);
  EXPECT_EQ(map.largest_free(), 0U);
  EXPECT_EQ(map.fragments(), 0U);
}

TEST(ArenaMap, RefusesNothingAndTooMuch) {
  ArenaMap map(4 * kUnit);
  EXPECT_FALSE(map.take_low(0).has_value());
  EXPECT_FALSE(map.take_high(0).has_value());
  EXPECT_FALSE(map.take_low(static_cast<std::size_t>(-1)).has_value());
  EXPECT_FALSE(map.take_high(static_cast<std::size_t>(-1)).has_value());
  ArenaMap none(kUnit - 1);
  EXPECT_FALSE(none.take_low(1).has_value());
}

TEST(ArenaMap, JoinsWhatIsFree) {
  ArenaMap map(5 * kUnit);
  for (std::size_t i = 0; i < 5; ++i) ASSERT_EQ(map.take_low(kUnit), i * kUnit);
  map.give(kUnit, kUnit);
  map.give(3 * kUnit, kUnit);
  EXPECT_EQ(map.fragments(), 2U);
  EXPECT_FALSE(map.take_high(2 * kUnit).has_value()) << "there are bytes, in pieces";
  map.give(2 * kUnit, kUnit);
  EXPECT_EQ(map.fragments(), 1U);
  EXPECT_EQ(map.take_high(3 * kUnit), kUnit);
}

TEST(ArenaMap, ChecksWhatIsGiven) {
  ArenaMap map(5 * kUnit);
  ASSERT_EQ(map.take_low(2 * kUnit), 0U);
  EXPECT_DEATH(map.give(kUnit, 2 * kUnit), "not taken");
  EXPECT_DEATH(map.give(3 * kUnit, kUnit), "not taken");
  EXPECT_DEATH(map.give(1, kUnit), "not taken");
}

TEST(ArenaMap, AnswersRandomOperationsAsAMapOfUnitsWould) {
  constexpr std::size_t kUnits = 64;
  struct Block {
    std::size_t first;
    std::size_t count;
    std::size_t bytes;
  };
  std::mt19937 random(7);
  ArenaMap map(kUnits * kUnit);
  std::vector<bool> taken(kUnits);
  std::vector<Block> blocks;
  const auto is_free = [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      if (taken[i]) return false;
    }
    return true;
  };
  int refused = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0 && !blocks.empty()) {
      const std::size_t index = random() % blocks.size();
      const Block block = blocks[index];
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(index));
      map.give(block.first * kUnit, block.bytes);
      for (std::size_t i = 0; i < block.count; ++i) taken[block.first + i] = false;
    } else {
      const bool low = random() % 2 == 0;
      const std::size_t most = random() % 4 == 0 ? 20 : 4;
      const std::size_t count = 1 + random() % most;
      const std::size_t bytes = count * kUnit - random() % kUnit;
      std::optional<std::size_t> expected;
      for (std::size_t first = 0; first + count <= kUnits; ++first) {
        if (is_free(first, count) && (!low || !expected)) expected = first * kUnit;
      }
      const std::optional<std::size_t> got = low ? map.take_low(bytes) : map.take_high(bytes);
      ASSERT_EQ(got, expected);
      refused += got ? 0 : 1;
      if (!got) continue;
      blocks.push_back({*got / kUnit, count, bytes});
      for (std::size_t i = 0; i < count; ++i) taken[*got / kUnit + i] = true;
    }
    std::size_t used = 0;
    std::size_t run = 0;
    std::size_t largest = 0;
    std::size_t fragments = 0;
    for (std::size_t i = 0; i < kUnits; ++i) {
      used += taken[i] ? kUnit : 0;
      run = taken[i] ? 0 : run + kUnit;
      fragments += run == kUnit ? 1 : 0;
      largest = std::max(largest, run);
    }
    ASSERT_EQ(map.used(), used);
    ASSERT_EQ(map.largest_free(), largest);
    ASSERT_EQ(map.fragments(), fragments);
  }
  EXPECT_GT(refused, 100) << "it was never full";
}

}  // namespace
}  // namespace reprise::gpu
