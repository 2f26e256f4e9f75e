// The positions at which a prompt gets checkpoints.

#include "actors/cache/checkpoint_plan.h"

#include <gtest/gtest.h>

namespace reprise::actors {
namespace {

using Store = CheckpointRules::Store;
using protocol::MessageBorders;
using protocol::Origin;
using Tokens = std::vector<TokenId>;

// A row per origin, as in protocol/checkpoint_rules.h.
TEST(CheckpointRules, EveryOriginHasItsRow) {
  struct Row {
    Origin origin;
    bool short_is_planned;  // below the minimum length
    bool taken_at_high_load;
    Store store;
  };
  const Row rows[] = {
      {Origin::kSystem, false, true, Store::kAtOnce},    {Origin::kLastUser, false, true, Store::kAtOnce},
      {Origin::kHistory, false, true, Store::kAtOnce},   {Origin::kPromptEnd, false, true, Store::kAtOnce},
      {Origin::kBranch, false, true, Store::kAtOnce},    {Origin::kTurnEnd, false, true, Store::kAtOnce},
      {Origin::kSpaced, false, true, Store::kWhenIdle},  {Origin::kTool, false, true, Store::kAtOnce},
      {Origin::kBreakpoint, true, true, Store::kAtOnce}, {Origin::kReply, false, false, Store::kWhenIdle},
      {Origin::kCall, false, false, Store::kAtOnce},
  };
  static_assert(std::size(rows) == protocol::kOrigins);
  const CheckpointRules rules{.min_tokens = 16};
  const CheckpointRules cut{.any_token = true, .min_tokens = 16};
  for (const Row& row : rows) {
    SCOPED_TRACE(protocol::name_of(row.origin));
    const Origin origin = row.origin;
    EXPECT_EQ(rules.plans({.origin = origin, .at = 15}), row.short_is_planned);
    EXPECT_TRUE(rules.plans({.origin = origin, .at = 16}));
    EXPECT_TRUE(rules.plans({.origin = origin, .at = 1, .is_awaited = true}));
    EXPECT_FALSE(cut.plans({.origin = origin, .at = 16}));
    EXPECT_TRUE(cut.plans({.origin = origin, .at = 16, .is_end = true}));
    EXPECT_EQ(cut.plans({.origin = origin, .at = 15, .is_end = true}), row.short_is_planned);
    EXPECT_TRUE(CheckpointRules::takes({.origin = origin, .at = 64}, false, 1));
    EXPECT_TRUE(CheckpointRules::takes({.origin = origin, .at = 64, .is_awaited = true}, true, 1));
    for (std::uint32_t spaced_after = 0; spaced_after < 4; ++spaced_after) {
      const bool halved = origin == Origin::kSpaced && spaced_after % 2 == 1;
      EXPECT_EQ(CheckpointRules::takes({.origin = origin, .at = 64}, true, spaced_after),
                row.taken_at_high_load && !halved);
    }
    EXPECT_EQ(CheckpointRules::stores(origin, 64), row.store);
    EXPECT_EQ(CheckpointRules::stores(origin, 63), Store::kNever);
  }
}

TEST(CheckpointRules, SpacedOnesHaveAnEighthOfTheMemory) {
  const auto spaced = [](std::uint64_t slot_bytes, std::uint64_t state_bytes) {
    return CheckpointRules::of({.slot_bytes = slot_bytes, .state_bytes = state_bytes}).max_spaced;
  };
  EXPECT_EQ(spaced(0, 1'000), 16U) << "without slots they cost next to nothing";
  EXPECT_EQ(spaced(10, 8 * 10 * 3), 3U);
  EXPECT_EQ(spaced(10, 8 * 10 - 1), 0U);
  EXPECT_EQ(spaced(10, 8 * 10 * 1'000), 24U);
}

TEST(CheckpointPlan, CheckpointsInsideRepliesAreLimited) {
  CheckpointRules rules{.grid = 4, .min_tokens = 64, .reply_every = 30, .max_in_reply = 3};
  const auto positions = [&](std::uint32_t restored, std::uint32_t end) {
    std::vector<std::uint32_t> at;
    for (const PlannedCheckpoint& one : reply_positions(restored, end, rules)) at.push_back(one.at);
    return at;
  };
  EXPECT_EQ(positions(0, 120), (std::vector<std::uint32_t>{80})) << "on the grid, the first is too short";
  EXPECT_EQ(positions(100, 1000), (std::vector<std::uint32_t>{400, 700})) << "farther apart in a long reply";
  EXPECT_TRUE(positions(100, 100).empty());
  rules.any_token = true;
  EXPECT_TRUE(positions(0, 120).empty());
  rules.any_token = false;
  rules.reply_every = 0;
  EXPECT_TRUE(positions(0, 120).empty());
}

TEST(CheckpointPlan, SpacedPositionsLoseAtMostAQuarter) {
  const CheckpointRules rules{.max_spaced = 1000};
  const std::vector<std::uint32_t> positions = spaced_positions(100'000, rules);
  ASSERT_FALSE(positions.empty());
  EXPECT_EQ(positions.front(), 256U);
  for (std::size_t i = 1; i < positions.size(); ++i) {
    EXPECT_LE(positions[i] - 1 - positions[i - 1], (positions[i] - 1) / 4 + 1);
  }
  EXPECT_GE(positions.back(), 75'000U - 1);
  EXPECT_TRUE(spaced_positions(256, rules).empty());
}

TEST(CheckpointPlan, FewerSpacedPositionsAreFartherApart) {
  const CheckpointRules rules{.max_spaced = 4};
  const std::vector<std::uint32_t> positions = spaced_positions(100'000, rules);
  EXPECT_LE(positions.size(), 4U);
  EXPECT_EQ(positions.back(), spaced_positions(100'000, {.max_spaced = 1000}).back());
  EXPECT_TRUE(spaced_positions(100'000, {.max_spaced = 0}).empty());
}

TEST(CheckpointPlan, HasEachOriginsPositionsOnce) {
  const Tokens prompt(1000, 5);
  const MessageBorders borders{
      .first_user = 100, .last_user = 700, .after_last_user = 900, .last_opener = 990};
  const std::vector<std::uint32_t> wanted = {700, 800};
  const auto plan = plan_checkpoints(prompt, borders, 0, 400, wanted, {});
  const std::vector<PlannedCheckpoint> expected = {
      {100, Origin::kSystem}, {256, Origin::kSpaced},  {342, Origin::kSpaced},   {400, Origin::kBranch},
      {456, Origin::kSpaced}, {608, Origin::kSpaced},  {700, Origin::kLastUser}, {800, Origin::kBranch},
      {811, Origin::kSpaced}, {900, Origin::kHistory}, {990, Origin::kHistory},  {999, Origin::kPromptEnd}};
  EXPECT_EQ(plan, expected);
  const auto rest = plan_checkpoints(prompt, borders, 811, 400, wanted, {});
  EXPECT_EQ(rest, std::vector<PlannedCheckpoint>(expected.end() - 3, expected.end()))
      << "behind what was restored";
}

TEST(CheckpointPlan, PromptEndIsAtMostMaxRestored) {
  const Tokens prompt(200, 5);
  const CheckpointRules whole{.max_restored = 168};
  const std::vector<PlannedCheckpoint> expected = {{168, Origin::kPromptEnd}};
  EXPECT_EQ(plan_checkpoints(prompt, {}, 0, {}, {}, whole), expected);
  EXPECT_TRUE(plan_checkpoints(prompt, {}, 168, {}, {}, whole).empty()) << "it came from there";
  const std::vector<PlannedCheckpoint> cut = {{199, Origin::kPromptEnd}};
  EXPECT_EQ(plan_checkpoints(prompt, {}, 0, {}, {}, {.any_token = true, .max_restored = 168}), cut);
}

TEST(CheckpointPlan, ToolResultEndGetsItsOwnCheckpoint) {
  const Tokens prompt(250, 5);
  const MessageBorders borders{
      .first_user = 100, .last_user = 150, .after_last_user = 170, .last_opener = 240, .after_tool = true};
  EXPECT_EQ(plan_checkpoints(prompt, borders, 0, {}, {}, {}),
            (std::vector<PlannedCheckpoint>{{100, Origin::kSystem},
                                            {150, Origin::kLastUser},
                                            {170, Origin::kHistory},
                                            {240, Origin::kTool},
                                            {249, Origin::kPromptEnd}}));
}

TEST(CheckpointPlan, BreakpointsAddCheckpointsWithTheirTtl) {
  using std::chrono::seconds;
  const Tokens prompt(200, 5);
  MessageBorders borders;
  borders.first_user = 70;
  const std::vector<BreakpointPosition> breakpoints = {
      {40, seconds(300)}, {70, seconds(300)}, {41, seconds(3600)}, {0, seconds(300)}, {900, seconds(300)}};
  const auto plan = plan_checkpoints(prompt, borders, 0, {}, {}, {.grid = 4}, breakpoints);
  EXPECT_EQ(plan,
            (std::vector<PlannedCheckpoint>{
                {40, Origin::kBreakpoint, seconds(3600)}, {68, Origin::kSystem}, {196, Origin::kPromptEnd}}))
      << "the longer of two lives; none of its own where the place is kept anyway; nothing outside of the "
         "prompt";
  EXPECT_EQ(plan_checkpoints(prompt, borders, 0, {}, {}, {.any_token = true}, breakpoints),
            (std::vector<PlannedCheckpoint>{{199, Origin::kPromptEnd}}));
}

TEST(CheckpointPlan, BlocksOfTheLastMessageAreOfTheHistory) {
  const std::vector<BreakpointPosition> positions = {{.at = 50, .ttl = std::chrono::seconds(300)},
                                                     {.at = 120, .is_block = true},
                                                     {.at = 8, .is_block = true}};
  EXPECT_EQ(plan_checkpoints(Tokens(200, 5), {}, 0, {}, {}, {.grid = 4, .min_tokens = 16}, positions),
            (std::vector<PlannedCheckpoint>{{48, Origin::kBreakpoint, std::chrono::seconds(300)},
                                            {120, Origin::kHistory},
                                            {196, Origin::kPromptEnd}}));
}

TEST(CheckpointPlan, KeepsToTheGrid) {
  const Tokens prompt(200, 5);
  MessageBorders borders;
  borders.first_user = 70;
  borders.last_opener = 190;
  const auto plan = plan_checkpoints(prompt, borders, 0, {}, {}, {.grid = 64});
  EXPECT_EQ(plan, (std::vector<PlannedCheckpoint>{
                      {64, Origin::kSystem}, {128, Origin::kHistory}, {192, Origin::kPromptEnd}}));
}

TEST(CheckpointPlan, CuttableStatesNeedOnlyThePromptEnd) {
  const Tokens prompt(1000, 5);
  MessageBorders borders;
  borders.first_user = 70;
  const auto plan = plan_checkpoints(prompt, borders, 0, 300, {}, {.any_token = true});
  EXPECT_EQ(plan, (std::vector<PlannedCheckpoint>{{999, Origin::kPromptEnd}}));
  EXPECT_TRUE(plan_checkpoints(Tokens{1}, {}, 0, {}, {}, {}).empty());
}

}  // namespace
}  // namespace reprise::actors
