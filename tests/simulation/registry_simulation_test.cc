// The prefix registry in many orders, with a simulated device worker, lower tier and requests: every request gets its
// answers, and flights, leases, pins and snapshots return to zero.

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/cache/prefix_registry.h"
#include "runtime/testing/simulator.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using runtime::Result;
using runtime::SimulatedChance;
using runtime::Simulator;
using runtime::Task;

constexpr std::uint64_t kSeeds = 1000;
constexpr std::uint64_t kSnapshotBytes = 100'000;
constexpr int kRequests = 12;
/// Longer than any answer takes: four leaders are followed for at most 120 s each, a tier is given 20 s.
constexpr std::chrono::minutes kPatience{30};

struct Book {
  int begun = 0;
  int ended = 0;
  int unanswered = 0;
  int followed = 0;
  int restored = 0;
  int brought = 0;
  int stopped = 0;
  bool calm = true;  // no request leaves early, and no entry is dropped as wrong
  int lost = 0;      // leased snapshots that the worker does not have
  std::set<std::uint64_t> snapshots{};
  std::set<std::uint64_t> adopted{};
};

// -- the worker

struct Compute {
  using Reply = std::uint32_t;  // checkpoints reported
  protocol::SequenceId sequence;
  protocol::SharedPlan plan;
  SharedTokens tokens;
  std::uint32_t from;
};
struct CloseSequence {
  protocol::SequenceId sequence;
};
struct HasSnapshot {
  using Reply = bool;
  protocol::SnapshotId snapshot;
};
using ReportRef = runtime::Ref<protocol::CheckpointTaken>;
struct MeetRegistry {
  ReportRef registry;
};

class SimulatedWorker : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::AdoptKvSnapshot, protocol::DropKvSnapshot,
                                    protocol::DropAdopted, protocol::AddCheckpoint, protocol::MoreToReclaim,
                                    protocol::ReadKv, Compute, CloseSequence, HasSnapshot, MeetRegistry>;
  static constexpr std::uint32_t kConcurrentHandlers = 64;
  SimulatedWorker(SimulatedChance& chance, Book& book) : chance_(chance), book_(book) {}

  void on(MeetRegistry meet) { registry_ = meet.registry; }
  Task<protocol::JobResult<protocol::Adopted>> on(protocol::AdoptKvSnapshot job) {
    auto pause = runtime::sleep_for(chance_.up_to(15ms));
    const Result<void> rested = co_await pause;
    const std::uint64_t number = job.snapshot.number;
    if (!rested.ok() || !book_.snapshots.contains(number)) {
      co_return protocol::JobError{protocol::JobFault::kUnknown, "no such snapshot"};
    }
    const std::uint64_t after = (book_.adopted.size() + 1) * kSnapshotBytes;
    if (!book_.adopted.contains(number) && after > job.budget_bytes) {
      co_return protocol::Adopted{.done = false, .short_bytes = after - job.budget_bytes};
    }
    book_.adopted.insert(number);
    co_return protocol::Adopted{.done = true, .adopted_bytes = book_.adopted.size() * kSnapshotBytes};
  }
  protocol::Dropped on(protocol::DropKvSnapshot job) {
    const std::uint64_t freed = book_.snapshots.erase(job.snapshot.number) * kSnapshotBytes;
    book_.adopted.erase(job.snapshot.number);
    return {.freed_bytes = freed, .adopted_bytes = book_.adopted.size() * kSnapshotBytes};
  }
  protocol::Dropped on(protocol::DropAdopted) {
    for (const std::uint64_t number : book_.adopted) book_.snapshots.erase(number);
    book_.adopted.clear();
    return {};
  }
  bool on(protocol::AddCheckpoint job) {
    const auto found = sequences_.find(job.sequence.number);
    if (found == sequences_.end() || job.at <= found->second.passed || job.at > found->second.end)
      return false;
    found->second.places.insert(job.at);
    return true;
  }
  void on(protocol::MoreToReclaim) {}
  protocol::ReadKv::Reply on(protocol::ReadKv) { return protocol::JobError{}; }
  bool on(HasSnapshot has) { return book_.snapshots.contains(has.snapshot.number); }

  Task<std::uint32_t> on(Compute compute) {
    Sequence& begun = sequences_[compute.sequence.number];
    begun.passed = compute.from;
    begun.end = static_cast<std::uint32_t>(compute.tokens->size());
    for (const auto& place : compute.plan->places) {
      if (place.at > compute.from) begun.places.insert(place.at);
    }
    std::uint32_t reported = 0;
    for (auto found = sequences_.find(compute.sequence.number);
         found != sequences_.end() && found->second.passed < found->second.end;
         found = sequences_.find(compute.sequence.number)) {
      Sequence& sequence = found->second;
      const std::uint32_t next = std::min(sequence.end, sequence.passed + 20);
      while (!sequence.places.empty() && *sequence.places.begin() <= next) {
        report(compute, sequence, *sequence.places.begin());
        sequence.places.erase(sequence.places.begin());
        ++reported;
      }
      sequence.passed = next;
      auto pause = runtime::sleep_for(chance_.up_to(200ms));
      const Result<void> rested = co_await pause;
    }
    co_return reported;
  }
  void on(CloseSequence close) {
    const auto found = sequences_.find(close.sequence.number);
    if (found == sequences_.end()) return;
    for (const std::uint64_t number : found->second.snapshots) {
      if (!book_.adopted.contains(number)) book_.snapshots.erase(number);
    }
    sequences_.erase(found);
  }

 private:
  struct Sequence {
    std::uint32_t passed = 0;
    std::uint32_t end = 0;
    std::set<std::uint32_t> places{};
    std::vector<std::uint64_t> snapshots{};
  };

  void report(const Compute& compute, Sequence& sequence, std::uint32_t at) {
    protocol::CheckpointTaken taken{
        .sequence = compute.sequence, .plan = compute.plan, .tokens = compute.tokens, .at = at};
    if (chance_.percent(10)) {
      taken.healthy = chance_.percent(50);  // no memory for it, or a state that is not finite
    } else {
      const std::uint64_t number = ++numbers_;
      book_.snapshots.insert(number);
      sequence.snapshots.push_back(number);
      taken.snapshot = protocol::SnapshotTaken{.snapshot = {.generation = 1, .number = number}, .tokens = at};
    }
    registry_.tell(std::move(taken));
  }

  SimulatedChance& chance_;
  Book& book_;
  ReportRef registry_;
  std::map<std::uint64_t, Sequence> sequences_;
  std::uint64_t numbers_ = 0;
};

// -- the tier below

class SimulatedTier : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::FetchState, protocol::StoreState, protocol::ForgetStates,
                                    protocol::UnloadStates>;
  static constexpr std::uint32_t kConcurrentHandlers = 64;
  explicit SimulatedTier(SimulatedChance& chance) : chance_(chance) {}
  Task<protocol::Fetched> on(protocol::FetchState fetch) {
    // One in twenty is too slow for the registry, which then lets the tier rest.
    auto pause = runtime::sleep_for(chance_.percent(5) ? 25s : chance_.up_to(1s));
    const Result<void> rested = co_await pause;
    protocol::Fetched fetched;
    if (rested.ok() && chance_.percent(40)) {
      auto state = std::make_shared<protocol::HostState>();
      state->stored = state->logical = fetch.at_most;
      fetched.state = std::move(state);
      fetched.reason = protocol::MissReason::kNone;
    }
    co_return fetched;
  }
  void on(protocol::StoreState) {}
  void on(protocol::ForgetStates) {}
  void on(protocol::UnloadStates) {}

 private:
  SimulatedChance& chance_;
};

// -- requests

struct Serve {};

class SimulatedRequest : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<Serve>;
  SimulatedRequest(SimulatedChance& chance, Book& book, runtime::RefOf<PrefixRegistry> registry,
                   runtime::RefOf<SimulatedWorker> worker, std::uint64_t number)
      : chance_(chance),
        book_(book),
        registry_(std::move(registry)),
        worker_(std::move(worker)),
        number_(number) {}

  void on_start() { launch(serve()); }
  void on(Serve) {}
  void on_stop() {
    if (!ended_) ++book_.stopped;
    end();
  }

 private:
  TokenList prompt() {
    TokenList tokens(40 + chance_.below(120));
    const auto salt = static_cast<TokenId>(chance_.below(3));
    const std::uint64_t branch = 20 * (1 + chance_.below(8));
    const auto variant = static_cast<TokenId>(chance_.below(3));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<TokenId>(i) + salt * 1000 + (i >= branch ? variant * 10'000 : 0);
    }
    return tokens;
  }
  bool leaves() { return !book_.calm && chance_.percent(5); }

  Task<void> serve() {
    ++book_.begun;
    const SharedTokens tokens = share_tokens(prompt());
    const protocol::SequenceId sequence{.generation = 1, .number = number_};
    auto announcing = registry_.ask(protocol::Announce{.flight = number_, .prompt = tokens}, kPatience);
    const Result<protocol::Announced> announced = co_await announcing;
    if (!answered(announced.ok()) || leaves()) co_return stop();
    if (announced->waited) ++book_.followed;

    auto looking = registry_.ask(protocol::Lookup{.flight = number_, .sequence = sequence}, kPatience);
    const Result<protocol::LookedUp> found = co_await looking;
    if (!answered(found.ok()) || leaves()) co_return stop();
    std::uint32_t from = 0;
    protocol::EndLease lease{.flight = number_};
    if (found->brought) {
      ++book_.brought;
      from = found->brought->state->stored;
      lease.brought_tokens = from;
      lease.tier = found->brought->tier;
    } else if (found->restore) {
      auto restoring = worker_.ask(HasSnapshot{found->restore->snapshot}, kPatience);
      const Result<bool> has = co_await restoring;
      if (!answered(has.ok())) co_return stop();
      if (*has) {
        ++book_.restored;
        from = found->restore->at;
      } else {
        ++book_.lost;
        lease.failed = protocol::MissReason::kLost;
      }
      if (!book_.calm && chance_.percent(5)) {
        registry_.tell(protocol::DropEntry{.tokens = tokens, .length = found->restore->at});
        from = 0;
      }
    }
    registry_.tell(lease);

    auto plan = std::make_shared<protocol::CheckpointPlan>();
    plan->flight = plan->request = number_;
    std::set<std::uint32_t> places(found->wanted.begin(), found->wanted.end());
    if (announced->branch) places.insert(*announced->branch);
    places.insert(static_cast<std::uint32_t>(tokens->size() - 1));
    for (const std::uint32_t at : places) {
      if (at > from) plan->places.push_back({.at = at, .origin = protocol::Origin::kSystem});
    }
    auto computing = worker_.ask(Compute{sequence, plan, tokens, from}, kPatience);
    const Result<std::uint32_t> reported = co_await computing;
    if (!answered(reported.ok()) || leaves()) co_return stop();
    auto settling = registry_.ask(protocol::Settle{.flight = number_, .reported = *reported}, kPatience);
    const Result<protocol::FlightSettled> settled = co_await settling;
    if (!answered(settled.ok())) co_return stop();
    if (chance_.percent(20)) {
      auto pinning = registry_.ask(protocol::Pin{.flight = number_, .time = 60s}, kPatience);
      const Result<protocol::Pinned> pinned = co_await pinning;
      if (!answered(pinned.ok())) co_return stop();
    }
    end();
    stop();
  }

  bool answered(bool ok) {
    if (!ok) ++book_.unanswered;
    return ok;
  }
  void end() {
    if (std::exchange(ended_, true)) return;
    ++book_.ended;
    registry_.tell(protocol::EndFlight{number_});
    worker_.tell(CloseSequence{{.generation = 1, .number = number_}});
  }

  SimulatedChance& chance_;
  Book& book_;
  const runtime::RefOf<PrefixRegistry> registry_;
  const runtime::RefOf<SimulatedWorker> worker_;
  const std::uint64_t number_;
  bool ended_ = false;
};

void check_seed(std::uint64_t seed, Book& book) {
  book.calm = seed % 3 == 0;
  Simulator simulator({.seed = seed,
                       .faults = {.delayed_percent = 30,
                                  .max_delay = 100ms,
                                  .max_turn_time = seed % 2 == 0 ? 1ms : 0ms,
                                  .stops_per_mille = book.calm ? 0U : 2U}});
  runtime::System& system = simulator.system();
  auto chance = std::ref(simulator.chance());
  auto worker = system.spawn<SimulatedWorker>({}, chance, std::ref(book));
  RegistryOptions options;
  options.budget_bytes = (seed % 5 == 0 ? 4 : 1000) * kSnapshotBytes;
  options.cache.worth_waiting = 10;
  options.figures = std::make_shared<RegistryFigures>();
  options.tier = system.spawn<SimulatedTier>({}, chance);
  const RegistryFigures& figures = *options.figures;
  auto registry = system.spawn<PrefixRegistry>({}, options);
  worker.tell(MeetRegistry{registry});
  BindRegistry bind{.worker = worker, .arch = {.generation = 1, .number = 1}};
  bind.kind = {.model = 1, .arithmetic = 2, .page_bytes = 64, .slot_bytes = 8, .page_tokens = 64};
  registry.tell(bind);
  simulator.run_for(1s);
  for (int i = 1; i <= kRequests; ++i) {
    simulator.after(simulator.chance().up_to(5s), [&, i] {
      const auto request = system.spawn<SimulatedRequest>({}, chance, std::ref(book), registry, worker,
                                                          static_cast<std::uint64_t>(i));
      simulator.may_stop(request);
    });
  }
  EXPECT_TRUE(simulator.run_until([&] { return book.ended == kRequests; }, 2h))
      << book.ended << " requests ended";
  simulator.run_for(5min);  // pins end, and what was to be dropped later is dropped
  EXPECT_EQ(book.unanswered, 0);
  EXPECT_EQ(figures.flights.load(), 0U);
  EXPECT_EQ(figures.leases.load(), 0U);
  EXPECT_EQ(figures.pinned.load(), 0U);
  EXPECT_EQ(figures.entries.load(), book.adopted.size()) << "entries without a snapshot, or the reverse";
  EXPECT_EQ(book.snapshots, book.adopted) << "a snapshot that belongs to nobody";
  EXPECT_EQ(registry.cell()->suspended_handlers(), 0U);
  EXPECT_TRUE(system.stop().complete);
}

TEST(RegistrySimulation, RequestsEndAndNothingIsLeftBehind) {
  Book all;
  for (std::uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Book book;
    check_seed(seed, book);
    all.followed += book.followed;
    all.restored += book.restored;
    all.brought += book.brought;
    all.stopped += book.stopped;
  }
  EXPECT_GT(all.followed, 100);
  EXPECT_GT(all.restored, 100);
  EXPECT_GT(all.brought, 100);
  EXPECT_GT(all.stopped, 100);
}

}  // namespace
}  // namespace reprise::actors
