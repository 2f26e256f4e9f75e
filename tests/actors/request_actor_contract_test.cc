// A request with a fake worker and a fake registry: however it ends, it releases what it held, and tells its
// client once.

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>

#include "actors/cache/registry_figures.h"
#include "actors/request/prompt_run.h"
#include "actors/request/request_actor.h"
#include "protocol/cache_view.h"
#include "runtime/system.h"
#include "tests/idle.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using protocol::JobError;
using protocol::JobFault;
using protocol::JobResult;
using protocol::MissReason;
using protocol::ServiceErrorCode;

/// Where a peer delays the request, or makes it fail.
enum class At : std::uint8_t {
  kNowhere,
  kAnnounce,
  kOpen,
  kLookup,
  kLoad,  // a state from a tier
  kRestore,
  kPrefill,
  kKeepPrompt,  // n > 1
  kDecode,
  kTurnEnd,
  kSettle,
};

/// What the peers hold for requests, and how they behave.
struct Script {
  std::atomic<At> hold{At::kNowhere};
  std::atomic<bool> held{false};  // a request waits there
  std::atomic<At> fail{At::kNowhere};
  std::atomic<JobFault> fault{JobFault::kDeviceFailed};
  std::atomic<bool> knows_prefix{true};
  std::atomic<bool> brings{false};  // the registry has a state from a lower tier

  std::mutex mutex;
  // All guarded by mutex.
  std::set<std::uint64_t> tickets;
  std::set<protocol::FlightNumber> flights;
  std::set<protocol::FlightNumber> leases;
  std::vector<MissReason> ended_leases;
  std::vector<std::uint32_t> brought;  // tokens, as reported at the ends of leases
  std::vector<std::uint32_t> settled;
  std::vector<protocol::SharedPlan> plans;
  std::uint32_t lookups = 0;
  std::uint32_t dropped = 0;
  bool closed_unsettled = false;
  bool settling = false;

  bool nothing_held() {
    const std::lock_guard lock(mutex);
    return tickets.empty() && flights.empty() && leases.empty();
  }
};

struct LetGo {};

/// Holds or fails the answer if the script says so.
template <class Reply>
bool holds(Script& script, At at, std::vector<std::function<void()>>& later, runtime::ReplyTo<Reply>& reply,
           const Reply& answer) {
  if (script.hold != at) return false;
  auto kept = std::make_shared<runtime::ReplyTo<Reply>>(std::move(reply));
  later.push_back([kept, answer] { kept->answer(answer); });
  script.held = true;
  return true;
}

/// The messages of a ref, and one more.
template <class Ref, class More>
struct WithMore;
template <class... Ms, class More>
struct WithMore<runtime::Ref<Ms...>, More> {
  using Type = runtime::Messages<Ms..., More>;
};

class ScriptedWorker : public runtime::Actor {
 public:
  using Accepts = WithMore<protocol::SequenceRef, LetGo>::Type;
  explicit ScriptedWorker(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  void on(protocol::OpenSequence job, runtime::ReplyTo<JobResult<protocol::Opened>> reply) {
    {
      const std::lock_guard lock(script_->mutex);
      script_->tickets.insert(job.ticket);
    }
    answer(At::kOpen, std::move(reply),
           protocol::Opened{.sequence = {.generation = 1, .number = job.ticket}});
  }
  void on(protocol::CloseSequence job) {
    const std::lock_guard lock(script_->mutex);
    script_->tickets.erase(job.ticket);
    script_->closed_unsettled = script_->closed_unsettled || script_->settling;
  }
  void on(protocol::Cancel) {}
  void on(protocol::LeaveOff) {  // the prefill ends soon
    if (script_->hold == At::kPrefill) on(LetGo{});
  }
  void on(protocol::RestoreKv job, runtime::ReplyTo<JobResult<protocol::Restored>> reply) {
    answer(At::kRestore, std::move(reply), protocol::Restored{.tokens = job.at});
  }
  void on(protocol::LoadKv job, runtime::ReplyTo<JobResult<protocol::Restored>> reply) {
    answer(At::kLoad, std::move(reply), protocol::Restored{.tokens = job.state->stored});
  }
  void on(protocol::SnapshotKv job, runtime::ReplyTo<JobResult<protocol::SnapshotTaken>> reply) {
    const bool raw = job.kind == protocol::SnapshotKv::Kind::kRaw;
    protocol::SnapshotTaken taken{.snapshot = {.generation = 1, .number = ++snapshots_}, .tokens = 12};
    taken.reported = !raw;
    answer(raw ? At::kKeepPrompt : At::kTurnEnd, std::move(reply), taken);
  }
  void on(protocol::Prefill job, runtime::ReplyTo<JobResult<protocol::Prefilled>> reply) {
    {
      const std::lock_guard lock(script_->mutex);
      script_->plans.push_back(job.plan);
    }
    if (job.progress) {
      std::uint32_t processed = 9;
      static_cast<void>(job.progress.try_write(processed));
      progress_ = std::move(job.progress);
    }
    const auto reported = static_cast<std::uint32_t>(job.plan ? job.plan->places.size() : 0);
    answer(At::kPrefill, std::move(reply), protocol::Prefilled{.computed = job.end, .reported = reported});
    if (job.decode && script_->fail != At::kPrefill) on(std::move(*job.decode));
  }
  void on(protocol::Decode job) {
    if (script_->fail == At::kDecode) {
      protocol::DecodeEvent event{.end = protocol::DecodeEnd::kFault, .error = {script_->fault, "a test"}};
      static_cast<void>(job.out.try_write(event));
      return job.out.close();
    }
    if (script_->hold == At::kDecode) {
      auto kept = std::make_shared<protocol::Decode>(std::move(job));
      later_.push_back([kept] { decode(*kept); });
      script_->held = true;
    } else {
      decode(job);
    }
  }
  protocol::Dropped on(protocol::DropKvSnapshot) {
    const std::lock_guard lock(script_->mutex);
    ++script_->dropped;
    return {};
  }
  void on(LetGo) {
    for (const auto& one : std::exchange(later_, {})) one();
  }

  void on(protocol::MaskReady) {}  // not used in these tests

 private:
  template <class T>
  void answer(At at, runtime::ReplyTo<JobResult<T>> reply, T value) {
    JobResult<T> result(std::move(value));
    if (script_->fail == at) result = JobError{script_->fault, "a test"};
    if (!holds(*script_, at, later_, reply, result)) reply.answer(std::move(result));
  }
  static void decode(protocol::Decode& job) {
    for (std::uint32_t i = 0; i < job.max_tokens; ++i) {
      protocol::DecodeEvent event{.token = protocol::DecodedToken{.token = static_cast<TokenId>(20 + i)}};
      if (i + 1 == job.max_tokens) event.end = protocol::DecodeEnd::kLength;
      static_cast<void>(job.out.try_write(event));
    }
    job.out.close();
  }

  const std::shared_ptr<Script> script_;
  std::vector<std::function<void()>> later_;
  std::uint64_t snapshots_ = 0;
  runtime::StreamWriter<std::uint32_t> progress_;
};

class ScriptedRegistry : public runtime::Actor {
 public:
  using Accepts = WithMore<protocol::RegistryRef, LetGo>::Type;
  explicit ScriptedRegistry(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  void on(protocol::Announce announce, runtime::ReplyTo<protocol::Announced> reply) {
    {
      const std::lock_guard lock(script_->mutex);
      script_->flights.insert(announce.flight);
    }
    const protocol::Announced announced{.known = 8, .restorable = 8};
    if (!holds(*script_, At::kAnnounce, later_, reply, announced)) reply.answer(announced);
  }
  void on(protocol::Lookup lookup, runtime::ReplyTo<protocol::LookedUp> reply) {
    protocol::LookedUp found;
    {
      const std::lock_guard lock(script_->mutex);
      ++script_->lookups;
      if (script_->knows_prefix) {
        found.restore = protocol::LookedUp::Restore{
            .snapshot = {.generation = 1, .number = 900}, .at = 8, .origin = protocol::Origin::kHistory};
        script_->leases.insert(lookup.flight);
      } else {
        found.reason = MissReason::kNeverSeen;
      }
      if (script_->brings) {
        auto state = std::make_shared<protocol::HostState>();
        state->stored = state->logical = 9;
        found.brought = protocol::LookedUp::Brought{
            .state = std::move(state), .origin = protocol::Origin::kTurnEnd, .tier = protocol::Tier::kDisk};
      }
    }
    if (!holds(*script_, At::kLookup, later_, reply, found)) reply.answer(found);
  }
  void on(protocol::EndLease end) {
    const std::lock_guard lock(script_->mutex);
    script_->leases.erase(end.flight);
    script_->ended_leases.push_back(end.failed);
    script_->brought.push_back(end.brought_tokens);
  }
  void on(protocol::Settle settle, runtime::ReplyTo<protocol::FlightSettled> reply) {
    {
      const std::lock_guard lock(script_->mutex);
      script_->settled.push_back(settle.reported);
      script_->settling = script_->hold == At::kSettle;
    }
    if (!holds(*script_, At::kSettle, later_, reply, protocol::FlightSettled{})) {
      reply.answer(protocol::FlightSettled{});
    }
  }
  protocol::Pinned on(protocol::Pin) { return {}; }
  protocol::CacheView on(protocol::ViewCache) { return {}; }
  void on(protocol::EndFlight end) {
    const std::lock_guard lock(script_->mutex);
    script_->flights.erase(end.flight);
    script_->leases.erase(end.flight);
  }
  void on(LetGo) {
    {
      const std::lock_guard lock(script_->mutex);
      script_->settling = false;
    }
    for (const auto& one : std::exchange(later_, {})) one();
  }

  // Not used in these tests.
  void on(protocol::DropEntry) {}
  protocol::Nothing on(protocol::DropNamespaces) { return {}; }

 private:
  const std::shared_ptr<Script> script_;
  std::vector<std::function<void()>> later_;
};

class RequestContract : public testing::Test {
 protected:
  RequestContract() {
    worker_ = system_.spawn<ScriptedWorker>({}, script_);
    registry_ = system_.spawn<ScriptedRegistry>({}, script_);
    auto model = std::make_shared<ServedModel>();
    model->card.id = std::string("m");
    model->card.context = 10'000;
    model->card.vocab = 100;
    model->arch = {.arch = {.generation = 1, .number = 1}, .device = {}, .architecture = {}, .vocab = 100};
    model->arch.context = 10'000;
    model->arch.token_bytes = 4;
    model->arch.page_tokens = 64;
    model->arch.slot_bytes = 64;
    model->arch.state_bytes = 1 << 20;
    model->arch.decode_is_canonical = true;
    model->worker = worker_;
    model->registry = registry_;
    model->registry_figures = std::make_shared<RegistryFigures>();
    model_ = std::move(model);
  }

  struct Client {
    runtime::StreamReader<protocol::Event> events;
    runtime::RefOf<RequestActor> request;
  };
  Client send(std::uint32_t n = 1, bool want_progress = false) {
    protocol::GenerateRequest request{.prompt = TokenList{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
    request.n = n;
    request.report.progress = want_progress;
    request.max_tokens = 3;
    request.sampling.temperature = 0;
    request.rules.ignore_eos = true;
    auto [writer, reader] = runtime::make_stream<protocol::Event>(protocol::kEventWindow);
    RequestJob job{.request = std::make_shared<const protocol::GenerateRequest>(std::move(request)),
                   .model = model_,
                   .out = std::move(writer),
                   .texts = nullptr,
                   .slot = nullptr,
                   .idle_slot = nullptr};
    return {std::move(reader), system_.spawn<RequestActor>({}, std::move(job))};
  }
  /// Returns the client's events, one letter each.
  static std::string read(Client& client, std::optional<protocol::ServiceError>* error = nullptr) {
    std::string seen;
    for (;;) {
      const auto event = client.events.next_blocking(runtime::deadline_after(20s));
      if (!event.ok()) return seen;
      seen += "ASDFEX"[event->index()];
      if (const auto* failed = std::get_if<protocol::Failed>(&*event);
          failed != nullptr && error != nullptr) {
        *error = failed->error;
      }
    }
  }
  void let_go() {
    script_->hold = At::kNowhere;
    worker_.tell(LetGo{});
    registry_.tell(LetGo{});
  }
  void expect_gone(const Client& client, At at) {
    EXPECT_TRUE(eventually([&] { return client.request.stopped(); })) << static_cast<int>(at);
    EXPECT_TRUE(eventually([&] { return script_->nothing_held(); })) << static_cast<int>(at);
  }

  const std::shared_ptr<Script> script_ = std::make_shared<Script>();
  runtime::System system_{{.workers = 2}};
  runtime::RefOf<ScriptedWorker> worker_;
  runtime::RefOf<ScriptedRegistry> registry_;
  std::shared_ptr<const ServedModel> model_;
};

constexpr At kPhases[] = {At::kAnnounce,   At::kOpen,   At::kLookup,  At::kRestore, At::kPrefill,
                          At::kKeepPrompt, At::kDecode, At::kTurnEnd, At::kSettle};

TEST_F(RequestContract, EventsComeInOrderAndAllIsGivenBack) {
  Client client = send();
  EXPECT_EQ(read(client), "ASDDDFE");
  expect_gone(client, At::kNowhere);
  const std::lock_guard lock(script_->mutex);
  EXPECT_EQ(script_->ended_leases, std::vector<MissReason>{MissReason::kNone});
  ASSERT_EQ(script_->plans.size(), 1U);
  EXPECT_EQ(script_->plans[0]->places.back().at, 9U) << "one token is left to be computed";
  EXPECT_EQ(script_->plans[0]->places.back().origin, protocol::Origin::kPromptEnd);
  const auto reported = static_cast<std::uint32_t>(script_->plans[0]->places.size());
  EXPECT_EQ(script_->settled, (std::vector<std::uint32_t>{reported, reported + 1}))
      << "the prompt's checkpoints, and the state behind the reply";
}

TEST_F(RequestContract, SlicesOfThePromptAreToldWhileItIsComputed) {
  script_->hold = At::kPrefill;
  Client client = send(1, true);
  std::vector<std::uint32_t> processed;
  const auto read_one = [&] {
    const auto event = client.events.next_blocking(runtime::deadline_after(20s));
    if (!event.ok()) return false;
    const auto* progress = std::get_if<protocol::Progress>(&*event);
    if (progress == nullptr) return true;
    EXPECT_EQ(progress->total, 10U);
    EXPECT_EQ(progress->restored, 8U);
    processed.push_back(progress->processed);
    return true;
  };
  while (processed.size() < 2 && read_one()) {
  }
  EXPECT_EQ(processed, (std::vector<std::uint32_t>{8, 9})) << "the prefill has not ended";
  let_go();
  while (read_one()) {
  }
  EXPECT_EQ(processed, (std::vector<std::uint32_t>{8, 9, 10}));
  expect_gone(client, At::kPrefill);
}

TEST(ProgressPace, TellsOfNewTokensTenTimesASecond) {
  ProgressPace pace(8);
  const runtime::TimePoint begin{std::chrono::seconds(5)};
  EXPECT_FALSE(pace.allows(8, begin)) << "it is known";
  EXPECT_TRUE(pace.allows(9, begin));
  EXPECT_FALSE(pace.allows(12, begin + 99ms));
  EXPECT_TRUE(pace.allows(20, begin + 100ms));
  EXPECT_FALSE(pace.allows(15, begin + 1s)) << "a prompt that is computed again has not gone further";
}

TEST_F(RequestContract, AClientThatGoesInAnyPhaseLeavesNothingBehind) {
  for (const At at : kPhases) {
    script_->hold = at;
    script_->held = false;
    Client client = send(at == At::kKeepPrompt ? 3 : 1);
    ASSERT_TRUE(eventually([&] { return script_->held.load(); })) << static_cast<int>(at);
    client.events.cancel();
    expect_gone(client, at);
    let_go();
  }
}

TEST_F(RequestContract, ALostModelIsToldInAnyPhase) {
  for (const At at : kPhases) {
    script_->hold = at;
    script_->held = false;
    Client client = send(at == At::kKeepPrompt ? 3 : 1);
    ASSERT_TRUE(eventually([&] { return script_->held.load(); })) << static_cast<int>(at);
    client.request.tell(ModelLost{.why = "a test"});
    std::optional<protocol::ServiceError> error;
    const std::string seen = read(client, &error);
    expect_gone(client, at);
    if (at != At::kTurnEnd && at != At::kSettle) {  // by then the answer is complete
      ASSERT_TRUE(error.has_value()) << static_cast<int>(at) << " " << seen;
      EXPECT_EQ(error->kind, ServiceErrorCode::kUnavailable);
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 'X') + std::count(seen.begin(), seen.end(), 'E'), 1)
        << "told once: " << seen;
    let_go();
  }
}

TEST_F(RequestContract, WhatTheWorkerRefusesIsToldByKind) {
  const auto code_of = [&](At at, JobFault fault) {
    script_->fail = at;
    script_->fault = fault;
    Client client = send();
    std::optional<protocol::ServiceError> error;
    const std::string seen = read(client, &error);
    expect_gone(client, at);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 'X'), 1) << seen;
    return error ? error->kind : ServiceErrorCode::kCancelled;
  };
  EXPECT_EQ(code_of(At::kOpen, JobFault::kNeverFits), ServiceErrorCode::kTooLong);
  EXPECT_EQ(code_of(At::kOpen, JobFault::kBusy), ServiceErrorCode::kOverloaded);
  EXPECT_EQ(code_of(At::kPrefill, JobFault::kNoMemory), ServiceErrorCode::kOverloaded);
  EXPECT_EQ(code_of(At::kPrefill, JobFault::kDeviceFailed), ServiceErrorCode::kUnavailable);
  EXPECT_EQ(code_of(At::kPrefill, JobFault::kUnhealthy), ServiceErrorCode::kInternal);
  EXPECT_EQ(code_of(At::kDecode, JobFault::kCannotSample), ServiceErrorCode::kInvalid);
  EXPECT_EQ(code_of(At::kDecode, JobFault::kUnknown), ServiceErrorCode::kUnavailable);
}

TEST_F(RequestContract, ASnapshotThatCannotBeRestoredCostsAHitAndNotTheAnswer) {
  script_->fail = At::kRestore;
  script_->fault = JobFault::kDamaged;
  Client client = send();
  EXPECT_EQ(read(client), "ASDDDFE");
  expect_gone(client, At::kRestore);
  const std::lock_guard lock(script_->mutex);
  EXPECT_EQ(script_->lookups, 3U) << "the next best is looked for, within limits";
  EXPECT_EQ(script_->ended_leases, std::vector<MissReason>(3, MissReason::kCorrupt));
}

TEST_F(RequestContract, WithoutMemoryToRestoreIntoItComputes) {
  script_->fail = At::kRestore;
  script_->fault = JobFault::kNoMemory;
  Client client = send();
  EXPECT_EQ(read(client), "ASDDDFE");
  const std::lock_guard lock(script_->mutex);
  EXPECT_EQ(script_->lookups, 1U) << "a smaller one would not fit either";
}

TEST_F(RequestContract, WhatATierBroughtIsLoadedAndKeptAsACheckpoint) {
  script_->brings = true;
  Client client = send();
  EXPECT_EQ(read(client), "ASDDDFE");
  expect_gone(client, At::kLoad);
  const std::lock_guard lock(script_->mutex);
  EXPECT_EQ(script_->lookups, 1U);
  EXPECT_EQ(script_->ended_leases, std::vector<MissReason>{MissReason::kNone});
  EXPECT_EQ(script_->brought, std::vector<std::uint32_t>{9});
  ASSERT_EQ(script_->plans.size(), 1U);
  ASSERT_FALSE(script_->settled.empty());
  EXPECT_EQ(script_->settled.front(), 1 + script_->plans.front()->places.size())
      << "the checkpoint of what was loaded is waited for like the others";
}

TEST_F(RequestContract, WhatCannotBeLoadedIsRestoredFromTheDevice) {
  script_->brings = true;
  script_->fail = At::kLoad;
  script_->fault = JobFault::kNoMemory;
  Client client = send();
  EXPECT_EQ(read(client), "ASDDDFE");
  expect_gone(client, At::kLoad);
  const std::lock_guard lock(script_->mutex);
  EXPECT_EQ(script_->lookups, 1U);
  EXPECT_EQ(script_->ended_leases, std::vector<MissReason>{MissReason::kNone});
  EXPECT_EQ(script_->brought, std::vector<std::uint32_t>{0}) << "nothing came from below";
}

TEST_F(RequestContract, AClientMayLeaveWhileAStateIsLoaded) {
  script_->brings = true;
  script_->hold = At::kLoad;
  Client client = send();
  ASSERT_TRUE(eventually([&] { return script_->held.load(); }));
  client.events = {};
  expect_gone(client, At::kLoad);
}

TEST_F(RequestContract, ASequenceStaysOpenUntilItsCheckpointsAreAdopted) {
  script_->hold = At::kSettle;
  Client client = send();
  ASSERT_TRUE(eventually([&] { return script_->held.load(); }));
  ASSERT_TRUE(eventually_idle(system_));
  {
    const std::lock_guard lock(script_->mutex);
    EXPECT_EQ(script_->tickets.size(), 1U);
    EXPECT_FALSE(script_->closed_unsettled);
  }
  let_go();
  EXPECT_EQ(read(client), "ASDDDFE");
  expect_gone(client, At::kSettle);
}

TEST_F(RequestContract, ATurnThatCannotBeKeptIsNoFailure) {
  script_->fail = At::kTurnEnd;
  script_->fault = JobFault::kNoMemory;
  Client client = send();
  EXPECT_EQ(read(client), "ASDDDFE");
  const std::lock_guard lock(script_->mutex);
  EXPECT_EQ(script_->settled.size(), 1U);
}

TEST_F(RequestContract, SeveralChoicesShareAPromptThatIsDroppedInTheEnd) {
  Client client = send(3);
  const std::string seen = read(client);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 'D'), 9) << seen;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 'F'), 3);
  EXPECT_EQ(seen.back(), 'E');
  expect_gone(client, At::kNowhere);
  const std::lock_guard lock(script_->mutex);
  EXPECT_EQ(script_->dropped, 1U);
}

}  // namespace
}  // namespace reprise::actors
