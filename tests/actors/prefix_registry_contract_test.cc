// The registry's contracts in protocol/registry.h and prefix_registry.h, with a fake worker.

#include "tests/actors/registry_fixture.h"
#include "tools/reliability/faults.h"

namespace reprise::actors {
namespace {

// -- checkpoints

TEST_F(RegistryContract, ReportedCheckpointIsAdoptedAndFound) {
  start();
  keep(1, prompt(100), 60);
  EXPECT_TRUE(is_adopted(1));
  announce(2, prompt(80));
  const protocol::LookedUp found = look_up(2);
  ASSERT_TRUE(found.restore.has_value());
  EXPECT_EQ(found.restore->at, 60U);
  EXPECT_EQ(found.restore->snapshot.number, 1U);
  EXPECT_EQ(found.restore->origin, protocol::Origin::kSystem) << "as the plan said of this place";
}

TEST_F(RegistryContract, SettleWaitsForTheAdoption) {
  start();
  held_->hold_adoptions = true;
  announce(1, prompt(100));
  look_up(1);
  registry_.tell(taken(1, prompt(100), 60, 1));
  auto settling = ask_meanwhile(protocol::Settle{.flight = 1, .reported = 1});
  EXPECT_TRUE(waits(settling));
  ASSERT_TRUE(eventually([&] { return held_->adoptions_held == 1; }));
  worker_.tell(LetAdoptionsGo{});
  settling.get();
  EXPECT_TRUE(is_adopted(1));
}

TEST_F(RegistryContract, SettleWaitsForReportsThatAreStillOnTheirWay) {
  start();
  announce(1, prompt(100));
  look_up(1);
  auto settling = ask_meanwhile(protocol::Settle{.flight = 1, .reported = 2});
  EXPECT_TRUE(waits(settling));
  registry_.tell(taken(1, prompt(100), 60, 1));
  EXPECT_TRUE(waits(settling)) << "one of two";
  protocol::CheckpointTaken missed = taken(1, prompt(100), 90, 2);
  missed.snapshot.reset();
  registry_.tell(missed);
  settling.get();
}

TEST_F(RegistryContract, SettleOfAFlightThatIsNotKnownIsAnsweredAtOnce) {
  start();
  ask(protocol::Settle{.flight = 99, .reported = 5});
  announce(1, prompt(100));
  auto settling = ask_meanwhile(protocol::Settle{.flight = 1, .reported = 5});
  EXPECT_TRUE(waits(settling));
  registry_.tell(protocol::EndFlight{1});
  settling.get();
}

TEST_F(RegistryContract, ASnapshotWhoseSequenceWasClosedFirstIsLost) {
  start();
  announce(1, prompt(100));
  look_up(1);
  protocol::CheckpointTaken report = taken(1, prompt(100), 60, 1);
  held_->snapshots.clear();  // it was freed with its sequence
  registry_.tell(report);
  ask(protocol::Settle{.flight = 1, .reported = 1});
  registry_.tell(protocol::EndFlight{1});
  announce(2, prompt(100));
  const protocol::LookedUp found = look_up(2);
  EXPECT_FALSE(found.restore.has_value());
  EXPECT_EQ(found.reason, protocol::MissReason::kLost);
}

// Tokens beyond the maximum must be computed, whatever is cached.
TEST_F(RegistryContract, APromptIsRestoredNoFurtherThanItMayBe) {
  start();
  keep(1, prompt(100), 60);
  keep(2, prompt(100), 90);
  const auto at_most = [&](FlightNumber flight, std::uint32_t most) {
    const auto announced = ask(protocol::Announce{
        .flight = flight, .name_space = {}, .prompt = share_tokens(prompt(100)), .max_tokens = most});
    const protocol::LookedUp found = look_up(flight);
    const std::uint32_t at = found.restore ? found.restore->at : 0;
    EXPECT_EQ(announced.restorable, at);
    registry_.tell(protocol::EndFlight{flight});
    return at;
  };
  EXPECT_EQ(at_most(3, 89), 60U);
  EXPECT_EQ(at_most(4, 90), 90U);
  EXPECT_EQ(at_most(5, 59), 0U);
  EXPECT_EQ(at_most(6, UINT32_MAX), 90U);
}

TEST_F(RegistryContract, SecondSnapshotOfAPositionIsDropped) {
  start();
  keep(1, prompt(100), 60);
  keep(2, prompt(100), 60);
  EXPECT_TRUE(eventually([&] { return held_->count() == 1; }));
  EXPECT_TRUE(is_adopted(1));
}

TEST_F(RegistryContract, OldEntriesAreEvictedForTheBudget) {
  start(2 * kSnapshotBytes + kSnapshotBytes / 2);  // the index takes some of it
  for (FlightNumber i = 1; i <= 4; ++i) keep(i, prompt(100, static_cast<TokenId>(i)), 60);
  EXPECT_EQ(held_->count(), 2U);
  EXPECT_TRUE(is_adopted(4));
  EXPECT_FALSE(is_adopted(1));
  announce(9, prompt(100, 1));
  EXPECT_EQ(look_up(9).reason, protocol::MissReason::kEvicted);
}

TEST_F(RegistryContract, NothingGoesBeforeTheBudgetIsFull) {
  start(10 * kSnapshotBytes + kSnapshotBytes / 2);
  for (FlightNumber i = 1; i <= 9; ++i) keep(i, prompt(100, static_cast<TokenId>(i)), 60);
  EXPECT_EQ(held_->count(), 9U);
  EXPECT_TRUE(is_adopted(1));
  EXPECT_TRUE(is_adopted(9));
}

TEST_F(RegistryContract, TheIndexCountsInTheBudget) {
  start(2 * kSnapshotBytes);
  for (FlightNumber i = 1; i <= 2; ++i) keep(i, prompt(100, static_cast<TokenId>(i)), 60);
  EXPECT_EQ(held_->count(), 1U);
  EXPECT_GT(figures_->index_bytes.load(), 0U);
  EXPECT_LT(figures_->index_bytes.load(), kSnapshotBytes);
}

TEST_F(RegistryContract, AnUnhealthyCheckpointIsTheReasonOfAMiss) {
  start();
  announce(1, prompt(100));
  look_up(1);
  protocol::CheckpointTaken missed = taken(1, prompt(100), 60, 1);
  held_->snapshots.clear();
  missed.snapshot.reset();
  missed.healthy = false;
  registry_.tell(missed);
  ask(protocol::Settle{.flight = 1, .reported = 1});
  registry_.tell(protocol::EndFlight{1});
  announce(2, prompt(100));
  EXPECT_EQ(look_up(2).reason, protocol::MissReason::kUnhealthy);
}

// -- followers

TEST_F(RegistryContract, AFollowerWaitsForTheLeadersCheckpoint) {
  start();
  announce(1, prompt(100));
  look_up(1);
  auto following =
      ask_meanwhile(protocol::Announce{.flight = 2, .name_space = "", .prompt = share_tokens(prompt(80))});
  EXPECT_TRUE(waits(following));
  std::uint32_t at = 0;
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(held_->mutex);
    if (!held_->added.empty()) at = held_->added[0];
    return at != 0;
  })) << "the leader was asked for one";
  registry_.tell(taken(1, prompt(100), at, 1));
  EXPECT_TRUE(following.get().waited);
  const protocol::LookedUp found = look_up(2);
  ASSERT_TRUE(found.restore.has_value());
  EXPECT_EQ(found.restore->at, at);
}

TEST_F(RegistryContract, AFollowerIsWokenWhenItsLeaderDies) {
  start();
  announce(1, prompt(100));
  look_up(1);
  auto following =
      ask_meanwhile(protocol::Announce{.flight = 2, .name_space = "", .prompt = share_tokens(prompt(100))});
  EXPECT_TRUE(waits(following));
  registry_.tell(protocol::EndFlight{1});
  following.get();
  EXPECT_FALSE(look_up(2).restore.has_value()) << "it computes itself";
}

TEST_F(RegistryContract, AFollowerIsWokenWhenTheCheckpointIsMissed) {
  start();
  announce(1, prompt(100));
  look_up(1);
  auto following =
      ask_meanwhile(protocol::Announce{.flight = 2, .name_space = "", .prompt = share_tokens(prompt(100))});
  EXPECT_TRUE(waits(following));
  protocol::CheckpointTaken missed = taken(1, prompt(100), 99, 1);
  missed.snapshot.reset();
  registry_.tell(missed);
  following.get();
}

TEST_F(RegistryContract, FlightThatHasComputedAllIsNotFollowed) {
  start();
  announce(1, prompt(100));
  look_up(1);
  ask(protocol::Settle{.flight = 1, .reported = 0});
  EXPECT_FALSE(announce(2, prompt(100)).waited);
  EXPECT_EQ(figures_->flights.load(), 1U);
}

TEST_F(RegistryContract, LookupReturnsCheckpointsFollowersWaitFor) {
  start();
  announce(1, prompt(100));
  auto following =
      ask_meanwhile(protocol::Announce{.flight = 2, .name_space = "", .prompt = share_tokens(prompt(50))});
  EXPECT_TRUE(waits(following));
  ASSERT_TRUE(eventually([&] { return figures_->flights.load() == 2; }));
  const protocol::LookedUp leader = look_up(1);
  EXPECT_EQ(leader.wanted, std::vector<std::uint32_t>{49});
  registry_.tell(taken(1, prompt(100), 49, 1));
  EXPECT_TRUE(following.get().waited);
}

TEST_F(RegistryContract, FollowersEndWithTheirClients) {
  start();
  announce(1, prompt(100));
  look_up(1);
  constexpr FlightNumber kFollowers = 6;
  std::vector<std::future<protocol::Announced>> following;
  for (FlightNumber i = 2; i < 2 + kFollowers; ++i) {
    following.push_back(ask_meanwhile(
        protocol::Announce{.flight = i, .name_space = "", .prompt = share_tokens(prompt(100))}));
  }
  ASSERT_TRUE(eventually([&] { return figures_->followers.load() == kFollowers; }));
  for (FlightNumber i = 2; i < 2 + kFollowers; ++i) registry_.tell(protocol::EndFlight{i});
  for (auto& one : following) EXPECT_FALSE(one.get().waited) << "the leader goes on";
  EXPECT_EQ(figures_->flights.load(), 1U);
  EXPECT_EQ(figures_->followers.load(), kFollowers) << "whoever has gone follows no other";
}

TEST_F(RegistryContract, FollowersOfOneNotAdmittedEndWithTheirClients) {
  start();
  announce(1, prompt(100));
  auto following =
      ask_meanwhile(protocol::Announce{.flight = 2, .name_space = "", .prompt = share_tokens(prompt(100))});
  ASSERT_TRUE(eventually([&] { return figures_->followers.load() == 1; }));
  look_up(1);  // it is admitted, and so would be waited for
  registry_.tell(protocol::EndFlight{2});
  EXPECT_FALSE(following.get().waited);
}

// -- leases

TEST_F(RegistryContract, LeasedEntriesAreOfferedAfterTheirRelease) {
  start();
  keep(1, prompt(100), 60);
  announce(2, prompt(100));
  ASSERT_TRUE(look_up(2).restore.has_value());
  const protocol::Reclaimed nothing = ask(protocol::Reclaim{.bytes = 50});
  EXPECT_EQ(nothing.entries, 0U);
  EXPECT_EQ(held_->count(), 1U);
  EXPECT_EQ(held_->offers, 0U);
  registry_.tell(protocol::EndLease{.flight = 2});
  EXPECT_TRUE(eventually([&] { return held_->offers == 1; }));
  const protocol::Reclaimed reclaimed = ask(protocol::Reclaim{.bytes = 50});
  EXPECT_EQ(reclaimed.entries, 1U);
  EXPECT_EQ(reclaimed.freed_bytes, kSnapshotBytes);
  EXPECT_EQ(held_->count(), 0U);
  registry_.tell(protocol::EndFlight{2});
  EXPECT_EQ(ask(protocol::Reclaim{.bytes = 1}).entries, 0U);
  EXPECT_EQ(held_->offers, 1U) << "told once, to a worker that was short";
}

TEST_F(RegistryContract, ALeaseEndsWithItsFlight) {
  start();
  keep(1, prompt(100), 60);
  announce(2, prompt(100));
  ASSERT_TRUE(look_up(2).restore.has_value());
  registry_.tell(protocol::EndFlight{2});
  EXPECT_EQ(ask(protocol::Reclaim{.bytes = 50}).entries, 1U);
}

TEST_F(RegistryContract, CorruptSnapshotIsDroppedWhenItsLeaseEnds) {
  start();
  keep(1, prompt(100), 60);
  announce(2, prompt(100));
  ASSERT_TRUE(look_up(2).restore.has_value());
  registry_.tell(protocol::EndLease{.flight = 2, .failed = protocol::MissReason::kNoMemory});
  ASSERT_TRUE(look_up(2).restore.has_value()) << "for lack of memory it stays";
  registry_.tell(protocol::EndLease{.flight = 2, .failed = protocol::MissReason::kCorrupt});
  EXPECT_TRUE(eventually([&] { return held_->count() == 0; }));
  EXPECT_EQ(look_up(2).reason, protocol::MissReason::kCorrupt);
}

// -- states that prove wrong

class RegistryWrongStates : public RegistryContract {
 protected:
  /// The state of the first `length` tokens of prompt(100) was compared with a cold run's.
  void found_wrong(std::uint32_t length) {
    registry_.tell(
        protocol::DropEntry{.name_space = "", .tokens = share_tokens(prompt(100)), .length = length});
  }
  void begin(FlightNumber flight, const TokenList& tokens) {
    announce(flight, tokens);
    look_up(flight);
    registry_.tell(protocol::EndLease{.flight = flight});
  }
  /// Reports a checkpoint with the flight's number; returns true if it is kept.
  bool is_kept(FlightNumber flight, const TokenList& tokens, std::uint32_t at, std::uint32_t reports = 1) {
    registry_.tell(taken(flight, tokens, at, flight));
    ask(protocol::Settle{.flight = flight, .reported = reports});
    return is_adopted(flight);
  }
};

TEST_F(RegistryWrongStates, CheckpointsComputedFromThemAreRefused) {
  start();
  keep(1, prompt(100), 60);
  begin(2, prompt(100));
  found_wrong(60);
  EXPECT_FALSE(is_kept(2, prompt(100), 90));
  EXPECT_TRUE(eventually([&] { return held_->count() == 0; })) << "nor does it take memory";
  announce(3, prompt(100));
  EXPECT_FALSE(look_up(3).restore.has_value());
  EXPECT_TRUE(is_kept(3, prompt(100), 90)) << "this one was computed anew";
}

TEST_F(RegistryWrongStates, IndirectlyDerivedCheckpointsAreRefused) {
  start();
  keep(1, prompt(100), 60);
  begin(2, prompt(100));
  ASSERT_TRUE(is_kept(2, prompt(100), 80));
  begin(3, prompt(100));
  found_wrong(60);
  EXPECT_FALSE(is_kept(3, prompt(100), 95));
  announce(4, prompt(100));
  EXPECT_FALSE(look_up(4).restore.has_value());
}

TEST_F(RegistryWrongStates, ReplyCheckpointsOfTheirMakersAreRefused) {
  start();
  begin(1, prompt(50));
  found_wrong(60);  // it was taken inside the reply
  protocol::CheckpointTaken in_reply = taken(1, prompt(100), 80, 1);
  auto plan = std::make_shared<protocol::CheckpointPlan>(*in_reply.plan);
  plan->flight = 0;
  in_reply.plan = plan;
  registry_.tell(in_reply);
  EXPECT_TRUE(eventually([&] { return held_->count() == 0; }));
  EXPECT_FALSE(is_adopted(1));
}

TEST_F(RegistryWrongStates, OthersAreKept) {
  start();
  keep(1, prompt(100), 60);
  begin(2, prompt(100));
  TokenList other = prompt(100);
  other[5] = 5000;
  begin(3, other);
  found_wrong(60);
  EXPECT_TRUE(is_kept(3, other, 90)) << "other tokens";
  EXPECT_TRUE(is_kept(2, prompt(100), 59)) << "it ends before the wrong one";
}

TEST_F(RegistryWrongStates, UnknownFlightsKeepNothing) {
  start();
  registry_.tell(taken(2, prompt(100), 80, 2));
  EXPECT_TRUE(eventually([&] { return held_->count() == 0; })) << "nobody knows what it restored";
  EXPECT_FALSE(is_adopted(2));
}

// -- generations and failures

TEST_F(RegistryContract, NewGenerationForgetsTheOldAndEndsItsWaits) {
  start();
  keep(1, prompt(100), 60);
  announce(2, prompt(100));
  const protocol::CheckpointTaken late = taken(2, prompt(100), 80, 2);
  auto settling = ask_meanwhile(protocol::Settle{.flight = 2, .reported = 1});
  auto following =
      ask_meanwhile(protocol::Announce{.flight = 3, .name_space = "", .prompt = share_tokens(prompt(100))});
  EXPECT_TRUE(waits(settling));
  bind(2);
  settling.get();
  following.get();
  EXPECT_TRUE(eventually([&] { return held_->drops_of_adopted == 2; }));
  registry_.tell(late);
  announce(4, prompt(100));
  const protocol::LookedUp found = look_up(4);
  EXPECT_FALSE(found.restore.has_value());
  EXPECT_EQ(found.reason, protocol::MissReason::kLost);
  {
    const std::lock_guard lock(held_->mutex);
    EXPECT_TRUE(held_->adopted.empty()) << "a report of the past adopts nothing";
  }
  EXPECT_EQ(ask(protocol::Lookup{.flight = 4, .sequence = {.generation = 1, .number = 4}}).reason,
            protocol::MissReason::kLost)
      << "nor is anything found for a sequence of the past";
}

TEST_F(RegistryContract, FailedRegistryRestartsEmptyAndUnbound) {
  start();
  keep(1, prompt(100), 60);
  announce(2, prompt(100));
  auto settling = std::async(std::launch::async, [&] {
    return registry_.ask_blocking(protocol::Settle{.flight = 2, .reported = 1}, 20s);
  });
  EXPECT_TRUE(waits(settling));
  crash(*registry_.cell());
  EXPECT_FALSE(settling.get().ok()) << "whoever waited is told that there is no answer";
  EXPECT_TRUE(eventually([&] { return held_->starts == 2; }));
  registry_.tell(taken(2, prompt(100), 80, 2));  // of an unknown flight, and it is not bound
  EXPECT_EQ(look_up(2).reason, protocol::MissReason::kLost);
  EXPECT_FALSE(is_adopted(2));
  bind(1);
  EXPECT_TRUE(eventually([&] { return held_->drops_of_adopted == 2; }));
  EXPECT_FALSE(is_adopted(1));
  keep(5, prompt(100), 60);
  EXPECT_TRUE(is_adopted(5)) << "and caches as before";
}

}  // namespace
}  // namespace reprise::actors
