// A registry with a lower tier, and the reasons of misses.

#include "tests/actors/registry_fixture.h"

namespace reprise::actors {
namespace {

class RegistryAbove : public RegistryContract {};

protocol::Fetched state_of(std::uint32_t tokens) {
  auto state = std::make_shared<protocol::HostState>();
  state->stored = state->logical = tokens;
  return {
      .state = std::move(state), .reason = protocol::MissReason::kNone, .origin = protocol::Origin::kTurnEnd};
}

TEST_F(RegistryAbove, LookupWaitsForTheTiersState) {
  start_above();
  keep(1, prompt(300), 60);
  below_->hold = true;
  announce(2, prompt(300));
  ASSERT_TRUE(eventually([&] { return below_->count(below_->asked) == 2; }));
  {
    const std::lock_guard lock(below_->mutex);
    EXPECT_EQ(below_->asked[1].more_than, 60U);
    EXPECT_EQ(below_->asked[1].at_most, 299U);
    EXPECT_EQ(below_->asked[1].seconds_per_token, 0.25);
  }
  auto looking = ask_meanwhile(protocol::Lookup{.flight = 2, .sequence = sequence(2)});
  EXPECT_TRUE(waits(looking));
  tier_.tell(Bring{state_of(200)});
  const protocol::LookedUp found = looking.get();
  ASSERT_TRUE(found.restore.has_value() && found.restore->at == 60U);
  ASSERT_TRUE(found.brought.has_value() && found.brought->state->stored == 200U);
  EXPECT_EQ(found.brought->tier, protocol::Tier::kDisk);
  registry_.tell(protocol::EndLease{.flight = 2, .brought_tokens = 200, .tier = protocol::Tier::kDisk});
  EXPECT_FALSE(look_up(2).brought.has_value()) << "it is handed out once";
  const auto disk = static_cast<std::size_t>(protocol::Tier::kDisk);
  EXPECT_EQ(figures_->brought[disk].load(), 1U);
  EXPECT_EQ(figures_->brought_tokens[disk].load(), 200U);
}

TEST_F(RegistryAbove, TierMissHasItsReasonAndShortPromptsDoNotAsk) {
  start_above();
  below_->hold = true;
  announce(1, prompt(300));
  ASSERT_TRUE(eventually([&] { return below_->count(below_->asked) == 1; }));
  tier_.tell(Bring{{.reason = protocol::MissReason::kSlowerThanComputing}});
  EXPECT_EQ(look_up(1).reason, protocol::MissReason::kSlowerThanComputing);
  announce(2, prompt(60, 7));
  EXPECT_EQ(look_up(2).reason, protocol::MissReason::kNeverSeen) << "too short to be worth it";
  announce(3, prompt(300, 8));
  auto looking = ask_meanwhile(protocol::Lookup{.flight = 3, .sequence = sequence(3)});
  EXPECT_TRUE(waits(looking));
  registry_.tell(protocol::EndFlight{3});
  EXPECT_EQ(looking.get().reason, protocol::MissReason::kLost);
  EXPECT_EQ(below_->count(below_->asked), 2U);
}

TEST_F(RegistryAbove, TierIsOfferedAdoptedStatesAndForgetsWrongOnes) {
  start_above();
  announce(1, prompt(300));
  look_up(1);
  registry_.tell(taken(1, prompt(300), 100, 1));
  auto spaced = taken(1, prompt(300), 256, 2);
  auto plan = std::make_shared<protocol::CheckpointPlan>(*spaced.plan);
  plan->checkpoints = {{.at = 256, .origin = protocol::Origin::kSpaced}};
  spaced.plan = plan;
  registry_.tell(spaced);
  registry_.tell(taken(1, prompt(300), 20, 3));
  ask(protocol::Settle{.flight = 1, .reported = 3});
  ASSERT_TRUE(eventually([&] { return below_->count(below_->offered) == 2; })) << "20 tokens are too few";
  {
    const std::lock_guard lock(below_->mutex);
    EXPECT_EQ(below_->offered[0].at, 100U);
    EXPECT_FALSE(below_->offered[0].device_is_idle);
    EXPECT_TRUE(below_->offered[1].at == 256U && below_->offered[1].device_is_idle) << "spaced: in idle time";
  }
  registry_.tell(protocol::DropEntry{.name_space = "", .tokens = share_tokens(prompt(300)), .length = 100});
  EXPECT_TRUE(eventually([&] { return below_->count(below_->forgotten) == 1; }));
}

TEST_F(RegistryAbove, StateFoundWrongDuringAFetchIsNotReturned) {
  start_above();
  below_->hold = true;
  announce(1, prompt(300));
  ASSERT_TRUE(eventually([&] { return below_->count(below_->asked) == 1; }));
  registry_.tell(protocol::DropEntry{.name_space = "", .tokens = share_tokens(prompt(300)), .length = 100});
  tier_.tell(Bring{state_of(200)});
  const protocol::LookedUp found = look_up(1);
  EXPECT_FALSE(found.brought.has_value());
  EXPECT_EQ(found.reason, protocol::MissReason::kCorrupt);
  registry_.tell(protocol::EndFlight{1});
  announce(2, prompt(300));
  ASSERT_TRUE(eventually([&] { return below_->count(below_->asked) == 2; }));
  tier_.tell(Bring{state_of(200)});
  EXPECT_TRUE(look_up(2).brought.has_value()) << "the tier was asked after it had forgotten the wrong one";
}

TEST_F(RegistryAbove, AStateFoundWrongIsNotOfferedBelow) {
  start_above();
  held_->hold_adoptions = true;
  announce(1, prompt(300));
  look_up(1);
  registry_.tell(taken(1, prompt(300), 200, 1));
  ASSERT_TRUE(eventually([&] { return held_->adoptions_held == 1; }));
  registry_.tell(protocol::DropEntry{.name_space = "", .tokens = share_tokens(prompt(300)), .length = 100});
  ASSERT_TRUE(eventually([&] { return below_->count(below_->forgotten) == 1; }));
  worker_.tell(LetAdoptionsGo{});
  ask(protocol::Settle{.flight = 1, .reported = 1});
  EXPECT_TRUE(eventually([&] { return held_->count() == 0; }));
  EXPECT_EQ(below_->count(below_->offered), 0U);
}

// -- reasons

class RegistryReasons : public RegistryContract {
 protected:
  std::uint64_t lost(protocol::MissReason reason) const {
    return figures_->lost_tokens[static_cast<std::size_t>(reason)].load();
  }
};

TEST_F(RegistryReasons, DivergedPromptReportsWhereAndTokensAfter) {
  start();
  keep(1, prompt(100), 90);
  TokenList other = prompt(100);
  for (std::size_t i = 6; i < other.size(); ++i) other[i] += 5000;
  announce(2, other);
  const protocol::LookedUp found = look_up(2);
  EXPECT_EQ(found.reason, protocol::MissReason::kDiverged);
  EXPECT_EQ(found.known, 6U);
  EXPECT_EQ(found.lost, 6U);
  EXPECT_EQ(found.beyond, 84U);
  EXPECT_EQ(lost(protocol::MissReason::kDiverged), 6U);
  EXPECT_EQ(figures_->by_reason[static_cast<std::size_t>(protocol::MissReason::kDiverged)].load(), 1U);
}

TEST_F(RegistryReasons, ContinuationWithLostTokensHasNoCheckpoint) {
  start();
  keep(1, prompt(100), 97);
  announce(2, prompt(120));
  const protocol::LookedUp found = look_up(2);
  EXPECT_EQ(found.reason, protocol::MissReason::kNoCheckpoint);
  EXPECT_EQ(found.known, 100U);
  EXPECT_EQ(found.restore->at, 97U);
  EXPECT_EQ(found.lost, 3U);
  EXPECT_EQ(found.beyond, 0U);
  EXPECT_EQ(lost(protocol::MissReason::kNoCheckpoint), 3U);
}

TEST_F(RegistryReasons, TokensFromATierAreNotLost) {
  start_above();
  keep(1, prompt(300), 100);
  below_->hold = true;
  announce(2, prompt(320));
  ASSERT_TRUE(eventually([&] { return below_->count(below_->asked) >= 2; }));
  auto state = std::make_shared<protocol::HostState>();
  state->stored = 280;
  tier_.tell(Bring{{.state = state, .reason = protocol::MissReason::kNone}});
  const protocol::LookedUp found = look_up(2);
  EXPECT_EQ(found.lost, 200U) << "beside what is brought";
  EXPECT_EQ(lost(protocol::MissReason::kNoCheckpoint), 200U);
  registry_.tell(protocol::EndLease{.flight = 2, .brought_tokens = 280, .tier = protocol::Tier::kDisk});
  EXPECT_TRUE(eventually([&] { return lost(protocol::MissReason::kNoCheckpoint) == 20; }));
}

}  // namespace
}  // namespace reprise::actors
