// plan_batch(): each rule by example, and all rules on random sets.

#include "actors/device/batch.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace reprise::actors {
namespace {

using protocol::Priority;

Runnable prefill(std::uint64_t key, std::uint32_t at, std::uint32_t stop_at, std::uint64_t order,
                 Priority priority = Priority::kNormal) {
  return {.key = key,
          .decodes = false,
          .at = at,
          .stop_at = stop_at,
          .end = stop_at,
          .priority = priority,
          .order = order};
}
Runnable decoder(std::uint64_t key, std::uint64_t last_step = 0) {
  return {.key = key, .decodes = true, .last_step = last_step};
}

std::vector<BatchSlice> plan(const std::vector<Runnable>& able, const BatchLimits& limits,
                             std::uint64_t step = 1) {
  return plan_batch(able, limits, step);
}

TEST(Batch, DecodersComeFirstAndMakeSlicesShort) {
  const BatchLimits limits{.rows = 8, .tokens = 512, .tokens_with_decoding = 64};
  const std::vector<Runnable> able = {prefill(1, 0, 1000, 1), decoder(2), decoder(3)};
  EXPECT_EQ(plan(able, limits), (std::vector<BatchSlice>{{2, true, 1}, {3, true, 1}, {1, false, 64}}));
  EXPECT_EQ(plan(std::vector{able[0]}, limits), (std::vector<BatchSlice>{{1, false, 512}}));
}

TEST(Batch, ShortPromptsAreGatheredBesideManyDecoders) {
  const BatchLimits limits{
      .rows = 8, .tokens = 512, .tokens_with_decoding = 256, .gather_from = 2, .grid = 64};
  const std::vector<BatchSlice> decodes = {{2, true, 1}, {3, true, 1}};
  std::vector<BatchSlice> both = decodes;
  both.push_back({1, false, 100});
  const std::vector<Runnable> able = {prefill(1, 0, 100, 1), decoder(2), decoder(3)};
  EXPECT_EQ(plan(able, limits, 1), decodes);
  EXPECT_EQ(plan(able, limits, 2), both) << "in every second step";
  EXPECT_EQ(plan(std::vector{able[0], able[1]}, limits, 1).size(), 2U) << "not beside few";
  std::vector<Runnable> urgent = able;
  urgent[0].priority = Priority::kHigh;
  EXPECT_EQ(plan(urgent, limits, 1), both);
  std::vector<Runnable> full = able;
  full.push_back(prefill(4, 0, 156, 2));
  EXPECT_EQ(plan(full, limits, 1).size(), 4U) << "a step's worth of them waits for nobody";
  BatchLimits narrow = limits;
  narrow.tokens_with_decoding = 64;
  EXPECT_EQ(plan(able, narrow, 1).size(), 3U) << "where they take turns by the steps";
  EXPECT_EQ(plan(std::vector{able[0]}, limits, 1).size(), 1U);
}

TEST(Batch, ShortPromptsDoNotWaitForALongOne) {
  const BatchLimits limits{.tokens = 100};
  const std::vector<Runnable> able = {prefill(1, 0, 10'000, 1), prefill(2, 0, 30, 2)};
  EXPECT_EQ(plan(able, limits), (std::vector<BatchSlice>{{1, false, 70}, {2, false, 30}}));
}

TEST(Batch, ShortPromptsDoNotWaitForManyLongOnes) {
  const BatchLimits limits{.tokens = 100};
  const std::vector<Runnable> able = {prefill(1, 0, 10'000, 1), prefill(2, 0, 9'000, 2),
                                      prefill(3, 0, 8'000, 3), prefill(4, 0, 30, 4)};
  EXPECT_EQ(plan(able, limits), (std::vector<BatchSlice>{{1, false, 50}, {4, false, 30}, {3, false, 20}}));
}

TEST(Batch, TheUrgentGoFirstAndTheOldestKeepsItsHalf) {
  const BatchLimits limits{.tokens = 100};
  const std::vector<Runnable> able = {prefill(1, 0, 10'000, 1, Priority::kLow), prefill(2, 0, 30, 2),
                                      prefill(3, 0, 8'000, 3, Priority::kHigh)};
  EXPECT_EQ(plan(able, limits), (std::vector<BatchSlice>{{1, false, 50}, {3, false, 50}}));
}

TEST(Batch, WhereThereIsOneSliceTheyTakeTurns) {
  const BatchLimits limits{.tokens = 64, .grid = 64};
  std::vector<Runnable> able = {prefill(1, 0, 10'000, 1), prefill(2, 0, 300, 2), prefill(3, 0, 9'000, 3)};
  EXPECT_EQ(plan(able, limits, 2), (std::vector<BatchSlice>{{1, false, 64}}));
  able[0].last_step = 2;
  EXPECT_EQ(plan(able, limits, 3), (std::vector<BatchSlice>{{2, false, 64}}));
  able[1].last_step = 3;
  EXPECT_EQ(plan(able, limits, 4), (std::vector<BatchSlice>{{1, false, 64}}));
}

TEST(Batch, SlicesEndOnTheGridOrWhereTheyMustStop) {
  const BatchLimits limits{.tokens = 200, .grid = 64};
  EXPECT_EQ(plan(std::vector{prefill(1, 64, 1000, 1)}, limits), (std::vector<BatchSlice>{{1, false, 192}}));
  EXPECT_EQ(plan(std::vector{prefill(1, 64, 130, 1)}, limits), (std::vector<BatchSlice>{{1, false, 66}}));
  const BatchLimits narrow{.tokens = 10, .grid = 64};
  EXPECT_EQ(plan(std::vector{prefill(1, 64, 1000, 1)}, narrow), (std::vector<BatchSlice>{{1, false, 64}}))
      << "one grid's worth at least";
}

TEST(Batch, TheLongestUnservedDecodersGoFirst) {
  const BatchLimits limits{.rows = 2};
  const std::vector<Runnable> able = {decoder(1, 9), decoder(2, 3), decoder(3, 7)};
  EXPECT_EQ(plan(able, limits), (std::vector<BatchSlice>{{2, true, 1}, {3, true, 1}}));
}

TEST(Batch, IdleWorkRunsAloneAndInSmallSlices) {
  const BatchLimits limits{.tokens = 512, .idle_tokens = 32};
  const Runnable idle = prefill(1, 0, 1000, 1, Priority::kIdle);
  EXPECT_EQ(plan(std::vector{idle}, limits), (std::vector<BatchSlice>{{1, false, 32}}));
  EXPECT_EQ(plan(std::vector{idle, decoder(2)}, limits), (std::vector<BatchSlice>{{2, true, 1}}));
  EXPECT_EQ(plan(std::vector{idle, prefill(3, 0, 100, 2)}, limits),
            (std::vector<BatchSlice>{{3, false, 100}}))
      << "nothing of it beside a request";
  EXPECT_EQ(plan(std::vector{idle}, {.tokens = 512, .idle_tokens = 4, .grid = 64}),
            (std::vector<BatchSlice>{{1, false, 64}}))
      << "one step of the grid";
  EXPECT_TRUE(plan({}, limits).empty());
}

// Simulates a device by the batches it gets: limits hold in every step, all prompts complete, and no decoder
// waits longer than allowed.
TEST(Batch, NobodyStarvesAndLimitsHold) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const BatchLimits limits{.rows = 1 + static_cast<std::uint32_t>(random() % 8),
                             .tokens = 1 + static_cast<std::uint32_t>(random() % 300),
                             .tokens_with_decoding = 1 + static_cast<std::uint32_t>(random() % 64),
                             .idle_tokens = 1 + static_cast<std::uint32_t>(random() % 64),
                             .grid = random() % 2 == 0 ? 1U : 64U};
    std::map<std::uint64_t, Runnable> all;
    for (std::uint64_t key = 1; key <= 1 + random() % 20; ++key) {
      if (random() % 3 == 0) {
        all[key] = decoder(key);
      } else {
        const std::uint32_t rows = 1 + static_cast<std::uint32_t>(random() % 2000);
        const auto priority = static_cast<Priority>(random() % 4);
        all[key] = prefill(key, 0, rows, key, priority);
      }
    }
    std::uint64_t step = 0;
    std::map<std::uint64_t, std::uint64_t> served;
    bool oldest_was_served = true;
    for (;; ++step) {
      ASSERT_LT(step, 100'000U) << "somebody starves";
      std::vector<Runnable> able;
      std::size_t decoders = 0;
      std::optional<Runnable> oldest;
      for (const auto& [key, one] : all) {
        able.push_back(one);
        decoders += one.decodes;
        if (!one.decodes && one.priority != Priority::kIdle && (!oldest || one.order < oldest->order))
          oldest = one;
      }
      std::shuffle(able.begin(), able.end(), random);
      const std::vector<BatchSlice> batch = plan_batch(able, limits, step + 1);
      if (able.empty()) break;
      ASSERT_FALSE(batch.empty());
      std::uint32_t rows = 0;
      std::uint32_t tokens = 0;
      bool oldest_served = !oldest;
      for (const BatchSlice& slice : batch) {
        Runnable& one = all.at(slice.key);
        ASSERT_EQ(one.decodes, slice.decodes);
        ASSERT_GT(slice.tokens, 0U);
        oldest_served = oldest_served || slice.key == oldest->key;
        one.last_step = step + 1;
        if (slice.decodes) {
          ++rows;
          const std::uint64_t longest = (decoders + limits.rows - 1) / limits.rows;
          ASSERT_LE(step - served[slice.key], longest) << "a decoder waited too long";
          served[slice.key] = step;
        } else {
          tokens += slice.tokens;
          one.at += slice.tokens;
          ASSERT_LE(one.at, one.stop_at);
          ASSERT_TRUE(one.at == one.stop_at || one.at % limits.grid == 0);
        }
      }
      ASSERT_TRUE(oldest_served || oldest_was_served) << "the oldest stood back twice";
      oldest_was_served = oldest_served;
      ASSERT_LE(rows, limits.rows);
      const bool idle_alone = rows == 0 && !oldest;
      const std::uint32_t most = idle_alone ? limits.idle_tokens
                                 : rows > 0 ? limits.tokens_with_decoding
                                            : limits.tokens;
      ASSERT_LE(tokens, std::max(most, limits.grid));
      std::erase_if(all, [](const auto& entry) {
        return !entry.second.decodes && entry.second.at == entry.second.stop_at;
      });
      // Decoders end when only they and idle work remain, so that idle work gets its turn.
      const bool only_decoders_and_idle = std::all_of(all.begin(), all.end(), [](const auto& entry) {
        return entry.second.decodes || entry.second.priority == Priority::kIdle;
      });
      if (only_decoders_and_idle && step > 50)
        std::erase_if(all, [](const auto& e) { return e.second.decodes; });
    }
  }
}

}  // namespace
}  // namespace reprise::actors
