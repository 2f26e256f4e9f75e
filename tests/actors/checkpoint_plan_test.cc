// The positions at which a prompt gets checkpoints.

#include "actors/cache/checkpoint_plan.h"

#include <gtest/gtest.h>

namespace reprise::actors {
namespace {

using protocol::MessageBorders;
using protocol::Origin;
using Tokens = std::vector<TokenId>;

TEST(CheckpointPlan, SpacedPlacesLoseAtMostAQuarter) {
  const PlanRules rules{.max_spaced = 1000};
  const std::vector<std::uint32_t> places = spaced_places(100'000, rules);
  ASSERT_FALSE(places.empty());
  EXPECT_EQ(places.front(), 256U);
  for (std::size_t i = 1; i < places.size(); ++i) {
    EXPECT_LE(places[i] - 1 - places[i - 1], (places[i] - 1) / 4 + 1);
  }
  EXPECT_GE(places.back(), 75'000U - 1);
  EXPECT_TRUE(spaced_places(256, rules).empty());
}

TEST(CheckpointPlan, FewerPlacesAreSpreadWider) {
  const PlanRules rules{.max_spaced = 4};
  const std::vector<std::uint32_t> places = spaced_places(100'000, rules);
  EXPECT_LE(places.size(), 4U);
  EXPECT_EQ(places.back(), spaced_places(100'000, {.max_spaced = 1000}).back());
  EXPECT_TRUE(spaced_places(100'000, {.max_spaced = 0}).empty());
}

TEST(CheckpointPlan, PutsEveryOriginInItsPlaceOnce) {
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

TEST(CheckpointPlan, TheEndIsKeptWhereAPromptLikeThisCanBeRestored) {
  const Tokens prompt(200, 5);
  const PlanRules whole{.max_restored = 168};
  const std::vector<PlannedCheckpoint> expected = {{168, Origin::kPromptEnd}};
  EXPECT_EQ(plan_checkpoints(prompt, {}, 0, {}, {}, whole), expected);
  EXPECT_TRUE(plan_checkpoints(prompt, {}, 168, {}, {}, whole).empty()) << "it came from there";
  const std::vector<PlannedCheckpoint> cut = {{199, Origin::kPromptEnd}};
  EXPECT_EQ(plan_checkpoints(prompt, {}, 0, {}, {}, {.any_token = true, .max_restored = 168}), cut);
}

TEST(CheckpointPlan, TheEndOfAToolsResultIsNotReplacedByTheNextTurn) {
  const Tokens prompt(250, 5);
  const MessageBorders borders{
      .first_user = 100, .last_user = 150, .after_last_user = 170, .last_opener = 240, .behind_tool = true};
  EXPECT_EQ(plan_checkpoints(prompt, borders, 0, {}, {}, {}),
            (std::vector<PlannedCheckpoint>{{100, Origin::kSystem},
                                            {150, Origin::kLastUser},
                                            {170, Origin::kHistory},
                                            {240, Origin::kTool},
                                            {249, Origin::kPromptEnd}}));
}

TEST(CheckpointPlan, BreakpointsStandBesideTheOthers) {
  using std::chrono::seconds;
  const Tokens prompt(200, 5);
  MessageBorders borders;
  borders.first_user = 70;
  const std::vector<PlacedBreakpoint> wishes = {
      {40, seconds(300)}, {70, seconds(300)}, {41, seconds(3600)}, {0, seconds(300)}, {900, seconds(300)}};
  const auto plan = plan_checkpoints(prompt, borders, 0, {}, {}, {.grid = 4}, wishes);
  EXPECT_EQ(plan,
            (std::vector<PlannedCheckpoint>{
                {40, Origin::kBreakpoint, seconds(3600)}, {68, Origin::kSystem}, {196, Origin::kPromptEnd}}))
      << "the longer of two lives; none of its own where the place is kept anyway; nothing outside of the "
         "prompt";
  EXPECT_EQ(plan_checkpoints(prompt, borders, 0, {}, {}, {.any_token = true}, wishes),
            (std::vector<PlannedCheckpoint>{{199, Origin::kPromptEnd}}));
}

TEST(CheckpointPlan, BlocksOfTheLastMessageAreOfTheHistory) {
  const std::vector<PlacedBreakpoint> places = {{.at = 50, .ttl = std::chrono::seconds(300)},
                                                {.at = 120, .is_block = true},
                                                {.at = 8, .is_block = true}};
  EXPECT_EQ(plan_checkpoints(Tokens(200, 5), {}, 0, {}, {}, {.grid = 4, .min_tokens = 16}, places),
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

TEST(CheckpointPlan, OnePlaceIsEnoughWhereStatesCanBeCut) {
  const Tokens prompt(1000, 5);
  MessageBorders borders;
  borders.first_user = 70;
  const auto plan = plan_checkpoints(prompt, borders, 0, 300, {}, {.any_token = true});
  EXPECT_EQ(plan, (std::vector<PlannedCheckpoint>{{999, Origin::kPromptEnd}}));
  EXPECT_TRUE(plan_checkpoints(Tokens{1}, {}, 0, {}, {}, {}).empty());
}

}  // namespace
}  // namespace reprise::actors
