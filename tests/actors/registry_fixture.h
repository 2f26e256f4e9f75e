#pragma once
// A registry with a fake worker and a fake lower tier.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "actors/cache/prefix_registry.h"
#include "runtime/system.h"
#include "tests/eventually.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using protocol::Error;
using protocol::ErrorKind;
using protocol::FlightNumber;
using protocol::JobResult;

/// Messages that the worker received, and snapshots it holds.
struct Held {
  std::mutex mutex;
  std::set<protocol::SnapshotId> snapshots;  // guarded by mutex
  std::set<protocol::SnapshotId> adopted;    // guarded by mutex
  std::vector<std::uint32_t> added;          // positions; guarded by mutex
  std::atomic<bool> hold_adoptions{false};
  std::atomic<std::uint32_t> adoptions_held{0};
  std::atomic<std::uint32_t> drops_of_adopted{0};
  std::atomic<std::uint32_t> offers{0};
  std::atomic<std::uint32_t> starts{0};  // reported to the supervisor

  std::size_t count() {
    const std::lock_guard lock(mutex);
    return snapshots.size();
  }
};

constexpr std::uint64_t kSnapshotBytes = 100'000;  // far more than the index of a few prompts

struct LetAdoptionsGo {};

/// Every snapshot has kSnapshotBytes.
class FakeWorker : public runtime::Actor {
 public:
  using Accepts =
      runtime::Messages<protocol::AdoptKvSnapshot, protocol::DropKvSnapshot, protocol::DropAdopted,
                        protocol::AddCheckpoint, protocol::MoreToReclaim, protocol::ReadKv, LetAdoptionsGo>;
  explicit FakeWorker(std::shared_ptr<Held> held) : held_(std::move(held)) {}

  void on(protocol::AdoptKvSnapshot job, runtime::ReplyTo<JobResult<protocol::Adopted>> reply) {
    JobResult<protocol::Adopted> adopted = adopt(job);
    if (held_->hold_adoptions) {  // holds the answers back
      waiting_.emplace_back(std::move(adopted), std::move(reply));
      ++held_->adoptions_held;
    } else {
      reply.answer(std::move(adopted));
    }
  }
  void on(LetAdoptionsGo) {
    for (auto& [adopted, reply] : waiting_) reply.answer(std::move(adopted));
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
  protocol::ReadKv::Reply on(protocol::ReadKv) { return Error{}; }

 private:
  JobResult<protocol::Adopted> adopt(const protocol::AdoptKvSnapshot& job) {
    const std::lock_guard lock(held_->mutex);
    if (!held_->snapshots.contains(job.snapshot)) return Error{ErrorKind::kUnknown, "no such snapshot"};
    const std::uint64_t after = (held_->adopted.size() + 1) * kSnapshotBytes;
    if (!held_->adopted.contains(job.snapshot) && after > job.budget_bytes) {
      return protocol::Adopted{.done = false, .short_bytes = after - job.budget_bytes};
    }
    held_->adopted.insert(job.snapshot);
    return protocol::Adopted{.done = true, .adopted_bytes = held_->adopted.size() * kSnapshotBytes};
  }

  const std::shared_ptr<Held> held_;
  using AdoptedResult = JobResult<protocol::Adopted>;
  std::vector<std::pair<AdoptedResult, runtime::ReplyTo<AdoptedResult>>> waiting_;
};

class RegistryStarts : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<RegistryStarted>;
  explicit RegistryStarts(std::shared_ptr<Held> held) : held_(std::move(held)) {}
  void on(RegistryStarted) { ++held_->starts; }

 private:
  const std::shared_ptr<Held> held_;
};

/// A tier that is empty, or answers as told.
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
  using Accepts = runtime::Messages<protocol::FetchState, protocol::StoreState, protocol::ForgetStates,
                                    protocol::UnloadStates, Bring>;
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
  void on(protocol::UnloadStates) {}  // the supervisor's
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
  /// Starts the registry with a lower tier.
  void start_above() {
    tier_ = system_.spawn<FakeTier>({}, below_);
    start();
  }
  void start(std::uint64_t budget = 1'000 * kSnapshotBytes) {
    worker_ = system_.spawn<FakeWorker>({}, held_);
    RegistryOptions options;
    options.supervisor = system_.spawn<RegistryStarts>({}, held_);
    options.budget_bytes = budget;
    options.cache.worth_waiting = 10;
    options.figures = figures_;
    if (tier_) options.tier = tier_;
    registry_ =
        system_.spawn<PrefixRegistry>({.on_failure = runtime::OnFailure::restart(
                                           PrefixRegistry::kMaxRestarts, PrefixRegistry::kRestartWindow)},
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
  /// Returns the worker's report of a checkpoint; `number` is its snapshot's.
  protocol::CheckpointTaken taken(FlightNumber flight, const TokenList& tokens, std::uint32_t at,
                                  std::uint64_t number) {
    auto plan = std::make_shared<protocol::CheckpointPlan>();
    plan->flight = plan->request = flight;
    plan->checkpoints = {{.at = at, .origin = protocol::Origin::kSystem}};
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
  /// Makes the registry adopt a snapshot of the prompt at `at`.
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

}  // namespace
}  // namespace reprise::actors
