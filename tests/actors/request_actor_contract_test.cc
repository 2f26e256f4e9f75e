// A request with a fake worker and a fake registry: however it ends, it releases what it held, and tells its
// client once.

#include <gtest/gtest.h>

#include <algorithm>

#include "actors/cache/registry_figures.h"
#include "actors/request/prompt_run.h"
#include "protocol/cache_view.h"
#include "tests/actors/scripted_peers.h"
#include "tests/idle.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using protocol::ErrorKind;

class RequestContract : public testing::Test {
 protected:
  RequestContract() {
    worker_ = system_.spawn<ScriptedWorker>({}, script_);
    registry_ = system_.spawn<ScriptedRegistry>({}, script_);
    model_ = scripted_model(worker_, registry_);
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
  static std::string read(Client& client, std::optional<protocol::Error>* error = nullptr) {
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
  EXPECT_EQ(script_->plans[0]->checkpoints.back().at, 9U) << "one token is left to be computed";
  EXPECT_EQ(script_->plans[0]->checkpoints.back().origin, protocol::Origin::kPromptEnd);
  const auto reported = static_cast<std::uint32_t>(script_->plans[0]->checkpoints.size());
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
    std::optional<protocol::Error> error;
    const std::string seen = read(client, &error);
    expect_gone(client, at);
    if (at != At::kTurnEnd && at != At::kSettle) {  // by then the answer is complete
      ASSERT_TRUE(error.has_value()) << static_cast<int>(at) << " " << seen;
      EXPECT_EQ(error->kind, ErrorKind::kUnavailable);
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 'X') + std::count(seen.begin(), seen.end(), 'E'), 1)
        << "told once: " << seen;
    let_go();
  }
}

TEST_F(RequestContract, WhatTheWorkerRefusesIsToldByKind) {
  const auto code_of = [&](At at, ErrorKind fault) {
    script_->fail = at;
    script_->fault = fault;
    Client client = send();
    std::optional<protocol::Error> error;
    const std::string seen = read(client, &error);
    expect_gone(client, at);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 'X'), 1) << seen;
    return error ? error->kind : ErrorKind::kCanceled;
  };
  EXPECT_EQ(code_of(At::kOpen, ErrorKind::kNeverFits), ErrorKind::kTooLong);
  EXPECT_EQ(code_of(At::kOpen, ErrorKind::kBusy), ErrorKind::kOverloaded);
  EXPECT_EQ(code_of(At::kPrefill, ErrorKind::kNoMemory), ErrorKind::kOverloaded);
  EXPECT_EQ(code_of(At::kPrefill, ErrorKind::kDeviceFailed), ErrorKind::kUnavailable);
  EXPECT_EQ(code_of(At::kPrefill, ErrorKind::kUnhealthy), ErrorKind::kInternal);
  EXPECT_EQ(code_of(At::kDecode, ErrorKind::kCannotSample), ErrorKind::kInvalid);
  EXPECT_EQ(code_of(At::kDecode, ErrorKind::kUnknown), ErrorKind::kUnavailable);
}

TEST_F(RequestContract, DamagedSnapshotsCostHitsNotTheAnswer) {
  script_->fail = At::kRestore;
  script_->fault = ErrorKind::kDamaged;
  Client client = send();
  EXPECT_EQ(read(client), "ASDDDFE");
  expect_gone(client, At::kRestore);
  const std::lock_guard lock(script_->mutex);
  EXPECT_EQ(script_->lookups, 3U) << "the next best is looked for, within limits";
  EXPECT_EQ(script_->ended_leases, std::vector<MissReason>(3, MissReason::kCorrupt));
}

TEST_F(RequestContract, WithoutMemoryToRestoreIntoItComputes) {
  script_->fail = At::kRestore;
  script_->fault = ErrorKind::kNoMemory;
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
  EXPECT_EQ(script_->settled.front(), 1 + script_->plans.front()->checkpoints.size())
      << "the checkpoint of what was loaded is waited for like the others";
}

TEST_F(RequestContract, WhatCannotBeLoadedIsRestoredFromTheDevice) {
  script_->brings = true;
  script_->fail = At::kLoad;
  script_->fault = ErrorKind::kNoMemory;
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

TEST_F(RequestContract, SequenceStaysOpenUntilCheckpointsAreAdopted) {
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
  script_->fault = ErrorKind::kNoMemory;
  Client client = send();
  EXPECT_EQ(read(client), "ASDDDFE");
  const std::lock_guard lock(script_->mutex);
  EXPECT_EQ(script_->settled.size(), 1U);
}

TEST_F(RequestContract, ChoicesShareOnePromptSnapshot) {
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
