// A registry alone, with a fake worker: what protocol/registry.h and prefix_registry.h promise.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "actors/cache/prefix_registry.h"
#include "runtime/system.h"
#include "tests/actors/eventually.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using protocol::FlightNumber;
using protocol::JobError;
using protocol::JobFault;
using protocol::JobResult;

/// What the worker was told, and what it holds.
struct Held {
  std::mutex mutex;
  std::set<protocol::SnapshotId> snapshots;  // guarded by mutex
  std::set<protocol::SnapshotId> adopted;    // guarded by mutex
  std::vector<std::uint32_t> added;          // places; guarded by mutex
  std::atomic<bool> hold_adoptions{false};
  std::atomic<std::uint32_t> adoptions_held{0};
  std::atomic<std::uint32_t> drops_of_adopted{0};
  std::atomic<std::uint32_t> offers{0};
  std::atomic<std::uint32_t> starts{0};  // that the supervisor was told of

  std::size_t count() {
    const std::lock_guard lock(mutex);
    return snapshots.size();
  }
};

constexpr std::uint64_t kSnapshotBytes = 100;

struct LetAdoptionsGo {};

/// Every snapshot has 100 bytes.
class FakeWorker : public runtime::Actor {
 public:
  using Accepts =
      runtime::Messages<protocol::AdoptKvSnapshot, protocol::DropKvSnapshot, protocol::DropAdopted,
                        protocol::AddCheckpoint, protocol::MoreToReclaim, protocol::ReadKv, LetAdoptionsGo>;
  explicit FakeWorker(std::shared_ptr<Held> held) : held_(std::move(held)) {}

  void on(protocol::AdoptKvSnapshot job, runtime::ReplyTo<JobResult<protocol::Adopted>> reply) {
    if (held_->hold_adoptions) {
      waiting_.emplace_back(job, std::move(reply));
      ++held_->adoptions_held;
    } else {
      reply.answer(adopt(job));
    }
  }
  void on(LetAdoptionsGo) {
    for (auto& [job, reply] : waiting_) reply.answer(adopt(job));
    waiting_.clear();
  }
  protocol::Dropped on(protocol::DropKvSnapshot job) {
    const std::lock_guard lock(held_->mutex);
    const std::uint64_t freed = held_->snapshots.erase(job.snapshot) * kSnapshotBytes;
    held_->adopted.erase(job.snapshot);
    return {.freed_bytes = freed, .adopted_bytes = held_->adopted.size() * kSnapshotBytes};
  }
  protocol::Dropped on(protocol::DropAdopted) {
    ++held_->drops_of_adopted;
    const std::lock_guard lock(held_->mutex);
    for (const protocol::SnapshotId id : held_->adopted) held_->snapshots.erase(id);
    held_->adopted.clear();
    return {};
  }
  bool on(protocol::AddCheckpoint job) {
    const std::lock_guard lock(held_->mutex);
    held_->added.push_back(job.at);
    return true;
  }
  void on(protocol::MoreToReclaim) { ++held_->offers; }
  JobResult<protocol::KvBytes> on(protocol::ReadKv) { return JobError{}; }

 private:
  JobResult<protocol::Adopted> adopt(const protocol::AdoptKvSnapshot& job) {
    const std::lock_guard lock(held_->mutex);
    if (!held_->snapshots.contains(job.snapshot)) return JobError{JobFault::kUnknown, "no such snapshot"};
    const std::uint64_t after = (held_->adopted.size() + 1) * kSnapshotBytes;
    if (!held_->adopted.contains(job.snapshot) && after > job.budget_bytes) {
      return protocol::Adopted{.done = false, .short_bytes = after - job.budget_bytes};
    }
    held_->adopted.insert(job.snapshot);
    return protocol::Adopted{.done = true, .adopted_bytes = held_->adopted.size() * kSnapshotBytes};
  }

  const std::shared_ptr<Held> held_;
  std::vector<std::pair<protocol::AdoptKvSnapshot, runtime::ReplyTo<JobResult<protocol::Adopted>>>> waiting_;
};

class FakeSupervisor : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<RegistryStarted>;
  explicit FakeSupervisor(std::shared_ptr<Held> held) : held_(std::move(held)) {}
  void on(RegistryStarted) { ++held_->starts; }

 private:
  const std::shared_ptr<Held> held_;
};

/// A tier that has nothing, or answers when it is told to.
struct Below {
  std::atomic<bool> hold{false};
  std::mutex mutex;
  std::vector<protocol::FetchState> asked;    // guarded by mutex
  std::vector<protocol::StoreState> offered;  // guarded by mutex
  std::vector<std::uint32_t> forgotten;       // lengths; guarded by mutex

  template <class T>
  std::size_t count(const std::vector<T>& list) {
    const std::lock_guard lock(mutex);
    return list.size();
  }
};
struct Bring {
  protocol::Fetched answer;
};
class FakeTier : public runtime::Actor {
 public:
  using Accepts =
      runtime::Messages<protocol::FetchState, protocol::StoreState, protocol::ForgetStates, Bring>;
  explicit FakeTier(std::shared_ptr<Below> below) : below_(std::move(below)) {}
  void on(protocol::FetchState job, runtime::ReplyTo<protocol::Fetched> reply) {
    if (below_->hold) {
      waiting_.push_back(std::move(reply));
    } else {
      reply.answer(protocol::Fetched{});
    }
    const std::lock_guard lock(below_->mutex);
    below_->asked.push_back(std::move(job));
  }
  void on(protocol::StoreState job) {
    const std::lock_guard lock(below_->mutex);
    below_->offered.push_back(std::move(job));
  }
  void on(protocol::ForgetStates job) {
    const std::lock_guard lock(below_->mutex);
    below_->forgotten.push_back(job.length);
  }
  void on(Bring bring) {
    for (auto& reply : waiting_) reply.answer(bring.answer);
    waiting_.clear();
  }

 private:
  const std::shared_ptr<Below> below_;
  std::vector<runtime::ReplyTo<protocol::Fetched>> waiting_;
};

class RegistryContract : public testing::Test {
 protected:
  /// With a tier below.
  void start_above() {
    tier_ = system_.spawn<FakeTier>({}, below_);
    start();
  }
  void start(std::uint64_t budget = 1'000'000) {
    worker_ = system_.spawn<FakeWorker>({}, held_);
    RegistryOptions options;
    options.supervisor = system_.spawn<FakeSupervisor>({}, held_);
    options.budget_bytes = budget;
    options.cache.worth_waiting = 10;
    options.figures = figures_;
    if (tier_) options.tier = tier_;
    registry_ =
        system_.spawn<PrefixRegistry>({.on_failure = runtime::OnFailure::restart(
                                           PrefixRegistry::kMostRestarts, PrefixRegistry::kRestartWindow)},
                                      options);
    bind(1);
  }
  void bind(std::uint32_t generation) {
    generation_ = generation;
    BindRegistry bind{.worker = worker_, .arch = {.generation = generation, .number = generation}};
    if (tier_)
      bind.kind = {.model = 1, .arithmetic = 2, .page_bytes = 64, .slot_bytes = 8, .page_tokens = 64};
    bind.seconds_per_token = [] { return 0.25; };
    registry_.tell(bind);
  }

  static TokenList prompt(std::uint32_t count, TokenId salt = 0) {
    TokenList tokens(count);
    for (std::uint32_t i = 0; i < count; ++i) tokens[i] = static_cast<TokenId>(i) + salt * 1000;
    return tokens;
  }
  template <class Question>
  typename Question::Reply ask(Question question) {
    auto answer = registry_.ask_blocking(std::move(question), 20s);
    EXPECT_TRUE(answer.ok()) << answer.error().describe();
    return std::move(*answer);
  }
  template <class Question>
  auto ask_meanwhile(Question question) {
    return std::async(std::launch::async, [this, question] { return ask(question); });
  }
  template <class T>
  static bool waits(std::future<T>& answer, std::chrono::milliseconds time = 60ms) {
    return answer.wait_for(time) == std::future_status::timeout;
  }

  protocol::Announced announce(FlightNumber flight, const TokenList& tokens) {
    return ask(
        protocol::Announce{.flight = flight, .name_space = "", .prompt = share_tokens(TokenList(tokens))});
  }
  protocol::SequenceId sequence(std::uint64_t number) const {
    return {.generation = generation_, .number = number};
  }
  protocol::LookedUp look_up(FlightNumber flight) {
    return ask(protocol::Lookup{.flight = flight, .sequence = sequence(flight)});
  }
  /// What the worker says when it has taken a checkpoint; `number` names its snapshot.
  protocol::CheckpointTaken taken(FlightNumber flight, const TokenList& tokens, std::uint32_t at,
                                  std::uint64_t number) {
    auto plan = std::make_shared<protocol::CheckpointPlan>();
    plan->flight = plan->request = flight;
    plan->places = {{.at = at, .origin = protocol::Origin::kSystem}};
    const protocol::SnapshotId id{.generation = generation_, .number = number};
    {
      const std::lock_guard lock(held_->mutex);
      held_->snapshots.insert(id);
    }
    return {.sequence = sequence(flight),
            .plan = plan,
            .tokens = share_tokens(TokenList(tokens)),
            .at = at,
            .snapshot = protocol::SnapshotTaken{.snapshot = id, .tokens = at}};
  }
  /// A prompt that was computed and kept at `at`.
  void keep(FlightNumber flight, const TokenList& tokens, std::uint32_t at) {
    announce(flight, tokens);
    look_up(flight);
    registry_.tell(taken(flight, tokens, at, flight));
    ask(protocol::Settle{.flight = flight, .reported = 1});
    registry_.tell(protocol::EndFlight{flight});
  }
  bool is_adopted(std::uint64_t number) {
    const std::lock_guard lock(held_->mutex);
    return held_->adopted.contains({.generation = generation_, .number = number});
  }

  const std::shared_ptr<Held> held_ = std::make_shared<Held>();
  const std::shared_ptr<Below> below_ = std::make_shared<Below>();
  runtime::RefOf<FakeTier> tier_;
  const std::shared_ptr<RegistryFigures> figures_ = std::make_shared<RegistryFigures>();
  runtime::System system_{{.workers = 2}};
  runtime::RefOf<FakeWorker> worker_;
  runtime::RefOf<PrefixRegistry> registry_;
  std::uint32_t generation_ = 0;
};

// -- checkpoints

TEST_F(RegistryContract, WhatTheWorkerReportsIsAdoptedAndFound) {
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
  held_->snapshots.clear();  // it went with its sequence
  registry_.tell(report);
  ask(protocol::Settle{.flight = 1, .reported = 1});
  registry_.tell(protocol::EndFlight{1});
  announce(2, prompt(100));
  const protocol::LookedUp found = look_up(2);
  EXPECT_FALSE(found.restore.has_value());
  EXPECT_EQ(found.reason, protocol::MissReason::kLost);
}

TEST_F(RegistryContract, ASecondSnapshotOfAPlaceIsDropped) {
  start();
  keep(1, prompt(100), 60);
  keep(2, prompt(100), 60);
  EXPECT_TRUE(eventually([&] { return held_->count() == 1; }));
  EXPECT_TRUE(is_adopted(1));
}

TEST_F(RegistryContract, WhatStandsInTheWayOfTheBudgetIsEvicted) {
  start(2 * kSnapshotBytes);
  for (FlightNumber i = 1; i <= 4; ++i) keep(i, prompt(100, static_cast<TokenId>(i)), 60);
  EXPECT_EQ(held_->count(), 2U);
  EXPECT_TRUE(is_adopted(4));
  EXPECT_FALSE(is_adopted(1));
  announce(9, prompt(100, 1));
  EXPECT_EQ(look_up(9).reason, protocol::MissReason::kEvicted);
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

TEST_F(RegistryContract, NobodyFollowsWhoHasComputedAll) {
  start();
  announce(1, prompt(100));
  look_up(1);
  ask(protocol::Settle{.flight = 1, .reported = 0});
  EXPECT_FALSE(announce(2, prompt(100)).waited);
  EXPECT_EQ(figures_->flights.load(), 1U);
}

TEST_F(RegistryContract, OneThatIsNotAdmittedYetTakesTheWishesOfItsFollowersAlong) {
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

// -- leases

TEST_F(RegistryContract, LeasedEntriesAreNotReclaimedAndTheirReleaseIsTold) {
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

TEST_F(RegistryContract, ASnapshotThatCouldNotBeRestoredIsDroppedWithItsLease) {
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

// -- generations and failures

TEST_F(RegistryContract, ANewGenerationForgetsTheOldOneAndLeavesNobodyWaiting) {
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

// -- the tier below

protocol::Fetched state_of(std::uint32_t tokens) {
  auto state = std::make_shared<protocol::HostState>();
  state->stored = state->logical = tokens;
  return {
      .state = std::move(state), .reason = protocol::MissReason::kNone, .origin = protocol::Origin::kTurnEnd};
}

TEST_F(RegistryContract, ALookupWaitsForWhatTheTierBringsAndHasItBesideItsOwn) {
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

TEST_F(RegistryContract, ATierThatHasNothingSaysWhyAndOneThatIsNotAskedHoldsUpNobody) {
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

TEST_F(RegistryContract, WhatIsAdoptedIsOfferedBelowAndWhatIsWrongForgotten) {
  start_above();
  announce(1, prompt(300));
  look_up(1);
  registry_.tell(taken(1, prompt(300), 100, 1));
  auto spaced = taken(1, prompt(300), 256, 2);
  auto plan = std::make_shared<protocol::CheckpointPlan>(*spaced.plan);
  plan->places = {{.at = 256, .origin = protocol::Origin::kSpaced}};
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

TEST_F(RegistryContract, OneThatFailsBeginsAnewWithNothingAndWaitsToBeBound) {
  start();
  keep(1, prompt(100), 60);
  announce(2, prompt(100));
  auto settling = std::async(std::launch::async, [&] {
    return registry_.ask_blocking(protocol::Settle{.flight = 2, .reported = 1}, 20s);
  });
  EXPECT_TRUE(waits(settling));
  EXPECT_FALSE(registry_.ask_blocking(protocol::InjectCrash{}, 20s).ok());
  EXPECT_FALSE(settling.get().ok()) << "whoever waited is told that there is no answer";
  EXPECT_TRUE(eventually([&] { return held_->starts == 2; }));
  registry_.tell(taken(2, prompt(100), 80, 2));  // of a flight that it does not know, and it is not bound
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
