// PromptRun, ReplyRun and IdleWork as plain classes over a RequestContext, with a fake worker and a fake
// registry. Whole requests are in request_actor_contract_test.cc.

#include <gtest/gtest.h>

#include "actors/request/idle_work.h"
#include "actors/request/prompt_run.h"
#include "actors/request/reply_run.h"
#include "models/text/tokenizer_load.h"
#include "tests/actors/scripted_peers.h"
#include "tests/idle.h"
#include "tests/source_folder.h"

namespace reprise::actors {
namespace {

using protocol::Origin;
using protocol::ServiceErrorCode;
using runtime::Task;

struct Runs {
  Runs(RequestJob job, std::function<void(Task<void>)> launch)
      : request{.job = std::move(job), .launch = std::move(launch)} {}

  RequestContext request;
  PromptRun prompt{request};
  ReplyRun reply{request, prompt};
  IdleWork idle{request, prompt, reply};
};

/// What a test reads after the runs have ended.
struct Ended {
  RequestFailure failure;
  protocol::CacheReport report;
  std::vector<PlannedCheckpoint> plan;
  TokenList tokens;   // of the first choice
  std::string reply;  // its text
  std::size_t choices = 0;
  bool caught_idle = false;        // the idle work that was to follow has begun
  std::atomic<bool> ended{false};  // release and acquire publish the rest
};

/// Prepares, enters, restores, prefills and decodes, as RequestActor::serve() does.
Task<RequestFailure> serve(Runs& runs) {
  RequestContext& request = runs.request;
  Task<RequestFailure> preparing = runs.prompt.prepare();
  if (RequestFailure failure = co_await preparing) co_return failure;
  request.usage.prompt_tokens = static_cast<std::uint32_t>(request.prompt.tokens->size());
  request.main = std::make_unique<Computation>();
  Computation& main = *request.main;
  main.tokens = request.prompt.tokens;
  main.max_tokens = request.prompt.max_tokens;
  main.reads_cache = main.writes_cache = request.caches();
  Task<RequestFailure> entering = runs.prompt.enter(main, request.job.request->origin.priority);
  if (RequestFailure failure = co_await entering) co_return failure;
  Task<RequestFailure> restoring = runs.prompt.restore(main);
  if (RequestFailure failure = co_await restoring) co_return failure;
  runs.prompt.place_checkpoints();
  std::optional<protocol::Decode> first = runs.reply.begin();
  Task<RequestFailure> prefilling = runs.prompt.prefill(main, false, std::move(first));
  if (RequestFailure failure = co_await prefilling) co_return failure;
  Task<RequestFailure> decoding = runs.reply.decode();
  RequestFailure failure = co_await decoding;
  co_return failure;
}

/// Runs the classes on an actor: serve(), then idle work if it is wanted.
class RunsActor : public runtime::Actor {
 public:
  struct BreakOff {};  // the client is gone
  using Accepts = runtime::Messages<BreakOff>;
  static constexpr std::uint32_t kConcurrentHandlers = 16;

  RunsActor(RequestJob job, bool idles, std::shared_ptr<Ended> ended)
      : runs_(std::move(job), [this](Task<void> task) { launch(std::move(task)); }),
        idles_(idles),
        ended_(std::move(ended)) {}

  void on_start() { launch(run()); }
  void on(BreakOff) {
    runs_.request.client_gone = true;
    runs_.request.break_off();
  }

 private:
  Task<void> run() {
    Task<RequestFailure> serving = serve(runs_);
    ended_->failure = co_await serving;
    if (Computation* main = runs_.request.main.get()) {
      ended_->report = main->report;
      ended_->plan = main->plan;
      main->sequence.reset();
      main->flight.reset();
    }
    ended_->choices = runs_.reply.choices().size();
    if (ended_->choices > 0) {
      ended_->tokens = runs_.reply.choices().front()->tokens;
      ended_->reply = runs_.reply.choices().front()->reply;
    }
    if (idles_ && !ended_->failure) {
      ended_->caught_idle = true;
      Task<void> prefilling = runs_.idle.prefill_reply();
      co_await prefilling;
    }
    ended_->ended.store(true, std::memory_order_release);
    runs_.request.main.reset();
    stop();
  }

  Runs runs_;
  const bool idles_;
  const std::shared_ptr<Ended> ended_;
};

class RequestRuns : public testing::Test {
 protected:
  RequestRuns() {
    const auto worker = system_.spawn<ScriptedWorker>({}, script_);
    const auto registry = system_.spawn<ScriptedRegistry>({}, script_);
    worker_ = worker;
    registry_ = registry;
    model_ = scripted_model(worker, registry);
  }

  static protocol::GenerateRequest request_of(TokenList prompt, std::uint32_t n = 1) {
    protocol::GenerateRequest request{.prompt = std::move(prompt)};
    request.n = n;
    request.max_tokens = 3;
    request.sampling.temperature = 0;
    request.rules.ignore_eos = true;
    return request;
  }
  static TokenList prompt(std::size_t tokens = 10) {
    TokenList list(tokens);
    for (std::size_t i = 0; i < tokens; ++i) list[i] = static_cast<TokenId>(i % 90);
    return list;
  }

  void start(protocol::GenerateRequest request, bool idles = false) {
    ended_ = std::make_shared<Ended>();
    auto [writer, reader] = runtime::make_stream<protocol::Event>(protocol::kEventWindow);
    events_ = std::move(reader);
    RequestJob job{.request = std::make_shared<const protocol::GenerateRequest>(std::move(request)),
                   .model = model_,
                   .out = std::move(writer),
                   .texts = nullptr,
                   .slot = nullptr,
                   .idle_slot = nullptr,
                   .meter = std::make_shared<RequestMeter>(0, "m")};
    runs_ = system_.spawn<RunsActor>({}, std::move(job), idles, ended_);
  }
  const Ended& end() {
    EXPECT_TRUE(eventually([&] { return ended_->ended.load(std::memory_order_acquire); }));
    return *ended_;
  }
  const Ended& run(protocol::GenerateRequest request, bool idles = false) {
    start(std::move(request), idles);
    return end();
  }
  void wait_until_held() {
    ASSERT_TRUE(eventually([&] { return script_->held.load(); }));
  }
  void let_go() {
    script_->hold = At::kNowhere;
    worker_.tell(LetGo{});
    registry_.tell(LetGo{});
  }
  void expect_all_given_back() {
    EXPECT_TRUE(eventually([&] { return script_->nothing_held(); }));
    const std::lock_guard lock(script_->mutex);
    EXPECT_EQ(script_->tickets.size(), 0U) << "sequences";
    EXPECT_EQ(script_->leases.size(), 0U);
    EXPECT_EQ(script_->snapshots.size(), 0U) << "of the prompt";
  }

  const std::shared_ptr<Script> script_ = std::make_shared<Script>();
  runtime::System system_{{.workers = 2}};
  runtime::RefOf<ScriptedWorker> worker_;
  runtime::RefOf<ScriptedRegistry> registry_;
  std::shared_ptr<ServedModel> model_;
  std::shared_ptr<Ended> ended_;
  runtime::StreamReader<protocol::Event> events_;
  runtime::RefOf<RunsActor> runs_;
};

// -- PromptRun

TEST_F(RequestRuns, AFailedRestoreIsComputedFromZero) {
  Ended warm;
  warm.report = run(request_of(prompt())).report;
  warm.tokens = ended_->tokens;
  EXPECT_EQ(warm.report.restored_tokens, 8U);
  EXPECT_EQ(warm.report.prefilled_tokens, 2U);
  ASSERT_EQ(warm.tokens.size(), 3U);

  script_->fail = At::kRestore;
  script_->fault = JobFault::kDamaged;
  const Ended& cold = run(request_of(prompt()));
  EXPECT_FALSE(cold.failure.has_value());
  EXPECT_EQ(cold.report.restored_tokens, 0U);
  EXPECT_EQ(cold.report.prefilled_tokens, 10U);
  EXPECT_EQ(cold.report.reason, MissReason::kCorrupt);
  EXPECT_EQ(cold.tokens, warm.tokens);
  expect_all_given_back();
  const std::lock_guard lock(script_->mutex);
  ASSERT_EQ(script_->ended_leases.size(), 4U) << "one was good, three tries were damaged";
  EXPECT_EQ(script_->ended_leases.front(), MissReason::kNone);
  EXPECT_EQ(script_->ended_leases.back(), MissReason::kCorrupt);
}

TEST_F(RequestRuns, ARefusedOpenIsTheRequestsError) {
  script_->fail = At::kOpen;
  script_->fault = JobFault::kNoMemory;
  const Ended& refused = run(request_of(prompt()));
  ASSERT_TRUE(refused.failure.has_value());
  EXPECT_EQ(refused.failure->kind, ServiceErrorCode::kOverloaded);
  EXPECT_TRUE(refused.failure->retry_after.has_value());
  EXPECT_EQ(refused.choices, 0U);
  expect_all_given_back();
  const std::lock_guard lock(script_->mutex);
  EXPECT_TRUE(script_->prefilled.empty());
  EXPECT_EQ(script_->lookups, 0U) << "no lease is taken for nothing";
}

TEST_F(RequestRuns, ACancelInAnyPhaseGivesAllBack) {
  for (const At at : {At::kAnnounce, At::kOpen, At::kLookup, At::kLoad, At::kRestore, At::kPrefill,
                      At::kKeepPrompt, At::kDecode, At::kTurnEnd, At::kSettle}) {
    script_->brings = at == At::kLoad;
    script_->hold = at;
    script_->held = false;
    start(request_of(prompt(), at == At::kKeepPrompt || at == At::kDecode ? 3 : 1));
    wait_until_held();
    runs_.tell(RunsActor::BreakOff{});
    const Ended& canceled = end();
    if (at != At::kTurnEnd && at != At::kSettle) {  // by then the reply is complete
      ASSERT_TRUE(canceled.failure.has_value()) << static_cast<int>(at);
      EXPECT_EQ(canceled.failure->kind, ServiceErrorCode::kCanceled) << static_cast<int>(at);
    }
    expect_all_given_back();
    let_go();
  }
}

TEST_F(RequestRuns, CheckpointsAreWhereTheyAreAwaited) {
  model_->arch.grid = 64;
  model_->checkpoints.grid = 64;
  {
    const std::lock_guard lock(script_->mutex);
    script_->branch = 130;
    script_->wanted = {192};
  }
  const Ended& served = run(request_of(prompt(250)));
  std::vector<std::pair<std::uint32_t, Origin>> places;
  for (const PlannedCheckpoint& one : served.plan) places.emplace_back(one.at, one.origin);
  const std::vector<std::pair<std::uint32_t, Origin>> expected = {{128, Origin::kBranch},
                                                                  {192, served.plan.back().origin}};
  EXPECT_EQ(places, expected) << "on the grid; the last is both awaited and the prompt's end";
  const std::lock_guard lock(script_->mutex);
  ASSERT_EQ(script_->plans.size(), 1U);
  EXPECT_EQ(script_->plans[0]->places, served.plan) << "the device is given this plan";
  ASSERT_EQ(script_->snapshot_plans.size(), 1U);
  EXPECT_EQ(script_->snapshot_plans[0]->origin_elsewhere, Origin::kTurnEnd);
  EXPECT_EQ(script_->snapshot_plans[0]->flight, script_->plans[0]->flight);
}

// -- ReplyRun

TEST_F(RequestRuns, OneChoiceIsDecodedWithoutAMessage) {
  EXPECT_EQ(run(request_of(prompt())).tokens.size(), 3U);
  {
    const std::lock_guard lock(script_->mutex);
    EXPECT_EQ(script_->messages_to_decode, 0U);
  }
  EXPECT_EQ(run(request_of(prompt(), 3)).choices, 3U);
  const std::lock_guard lock(script_->mutex);
  EXPECT_EQ(script_->messages_to_decode, 3U) << "several start from a snapshot after the prefill";
}

TEST_F(RequestRuns, AStopStringMaySpanTwoDecodedTokens) {
  const auto tokenizer = std::make_shared<const models::Tokenizer>(
      models::load_tokenizer(source_folder() / "models" / "builtin"));
  const TokenList reply = tokenizer->encode("the moon and the sun");
  ASSERT_GE(reply.size(), 3U);
  const std::string first(tokenizer->token_bytes(reply[0]));
  const std::string second(tokenizer->token_bytes(reply[1]));
  ASSERT_FALSE(first.empty() || second.empty());
  model_->tokenizer = tokenizer;
  model_->arch.vocab = static_cast<std::uint32_t>(tokenizer->vocab_size());
  {
    const std::lock_guard lock(script_->mutex);
    script_->reply = reply;
  }
  protocol::GenerateRequest request = request_of(prompt());
  request.max_tokens = static_cast<std::uint32_t>(reply.size());
  request.rules.stop = {std::string(1, first.back()) + second.front()};
  const Ended& stopped = run(std::move(request));
  EXPECT_FALSE(stopped.failure.has_value());
  EXPECT_EQ(stopped.reply, first.substr(0, first.size() - 1));
  EXPECT_EQ(stopped.tokens, reply) << "the state has the tokens by which the device was ahead";
  std::optional<protocol::Finished> finished;
  while (const auto event = events_.try_next()) {
    if (!event->ok()) break;
    if (const auto* one = std::get_if<protocol::Finished>(&**event)) finished = *one;
  }
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->reason, protocol::FinishReason::kStop);
  EXPECT_EQ(finished->stop, std::string(1, first.back()) + second.front());
}

// -- IdleWork

class IdleRuns : public RequestRuns {
 protected:
  IdleRuns() {
    model_->arch.decode_is_canonical = false;  // so replies are prefilled in idle time
    model_->checkpoints.reply_every = 4;
  }
  static protocol::GenerateRequest long_reply() {
    protocol::GenerateRequest request = request_of(prompt());
    request.max_tokens = 12;
    return request;
  }
};

TEST_F(IdleRuns, ALongReplyIsPrefilledWithCheckpointsInside) {
  EXPECT_TRUE(run(long_reply(), true).caught_idle);
  expect_all_given_back();
  const std::lock_guard lock(script_->mutex);
  ASSERT_EQ(script_->plans.size(), 2U) << "the prompt's and the reply's";
  std::vector<std::uint32_t> places;
  for (const PlannedCheckpoint& one : script_->plans[1]->places) places.push_back(one.at);
  EXPECT_EQ(places, (std::vector<std::uint32_t>{12, 16, 20, 22})) << "after the 8 restored, and at the end";
  EXPECT_EQ(script_->plans[1]->request, script_->plans[0]->flight) << "grouped with the request's own";
  EXPECT_EQ(script_->prefilled[1]->size(), 22U);
  EXPECT_EQ(script_->priorities.back(), protocol::Priority::kIdle);
}

TEST_F(IdleRuns, IdleWorkEndsWhenARequestTakesItsMemory) {
  start(long_reply(), true);
  const Ended& first = end();
  ASSERT_TRUE(first.caught_idle);
  {
    const std::lock_guard lock(script_->mutex);
    script_->prefilled.clear();
    script_->settled.clear();
  }
  script_->cancels_idle = true;
  EXPECT_FALSE(run(long_reply(), true).failure.has_value()) << "the reply itself is complete";
  expect_all_given_back();
  const std::lock_guard lock(script_->mutex);
  EXPECT_EQ(script_->prefilled.size(), 2U);
  EXPECT_EQ(script_->settled.size(), 1U) << "nothing of the canceled prefill is waited for";
}

TEST_F(IdleRuns, IdleWorkGivesAllBackWhenItIsBrokenOff) {
  script_->holds_idle = true;
  start(long_reply(), true);
  wait_until_held();
  runs_.tell(RunsActor::BreakOff{});
  EXPECT_TRUE(end().caught_idle);
  expect_all_given_back();
  let_go();
}

}  // namespace
}  // namespace reprise::actors
