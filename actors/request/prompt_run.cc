#include "actors/request/prompt_run.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "actors/request/text_pool.h"
#include "base/token.h"
#include "runtime/wait.h"

namespace reprise::actors {

using protocol::Error;
using protocol::ErrorKind;
using protocol::MissReason;
using protocol::Origin;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::milliseconds kTurnsDeadline{500};  // for the store; after that, turns are rendered
constexpr std::size_t kMaxFetched = 256;                  // turns fetched per request

// Long prompts on slow devices take hours; the loss of the client or model ends these waits earlier.
constexpr std::chrono::hours kPatience{24};

std::uint64_t new_conversation() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(2, std::memory_order_relaxed) +
         2;  // even, unlike client keys; relaxed: only has to be unique
}

bool carries_on(Origin origin) {
  return origin == Origin::kHistory || origin == Origin::kPromptEnd || origin == Origin::kTurnEnd ||
         origin == Origin::kReply || origin == Origin::kCall ||
         origin == Origin::kLastUser;  // where a turn prefilled in idle time begins
}

/// Returns true if the model has to reply to a tool result.
bool goes_on_from_tool(const protocol::GenerateRequest& request) {
  const auto* chat = std::get_if<protocol::ChatPrompt>(&request.prompt);
  if (chat == nullptr || !chat->add_generation_prompt || !chat->messages.is_array() ||
      chat->messages.size() == 0) {
    return false;
  }
  // Agents append system messages to tool results.
  const Json::Array& messages = chat->messages.as_array();
  for (auto last = messages.rbegin(); last != messages.rend(); ++last) {
    const std::string* role = last->find_string("role");
    if (role == nullptr || (*role != "system" && *role != "developer"))
      return role != nullptr && *role == "tool";
  }
  return false;
}

}  // namespace

// -- from text to tokens

Task<void> PromptRun::fetch_turns() {
  const ServedModel& model = *request_.job.model;
  const auto* chat = std::get_if<protocol::ChatPrompt>(&request_.job.request->prompt);
  if (chat == nullptr || !model.turns || !model.turn_store) co_return;
  protocol::FetchTurns fetch{.model = model.arch.identity,
                             .name_space = request_.job.request->cache.name_space};
  if (!chat->messages.is_array()) co_return;
  const Json::Array& messages = chat->messages.as_array();
  for (auto message = messages.rbegin(); message != messages.rend() && fetch.names.size() < kMaxFetched;
       ++message) {
    const std::string* role = message->find_string("role");
    if (role == nullptr || *role != "assistant") continue;
    std::string name = protocol::turn_name(*message);
    if (!name.empty() && model.turns->find(fetch.model, fetch.name_space, name) == nullptr)
      fetch.names.push_back(std::move(name));
  }
  if (fetch.names.empty()) co_return;
  auto asked =
      model.turn_store.ask(std::move(fetch), runtime::deadline_after(kTurnsDeadline), request_.lost.token());
  Result<protocol::FetchTurns::Reply> fetched = co_await asked;
  if (!fetched.ok()) co_return;
  for (protocol::SharedTurn& turn : *fetched) {
    model.turns->keep(request_.job.request->origin.tenant, model.arch.identity,
                      request_.job.request->cache.name_space, std::move(turn));
  }
}

Task<RequestFailure> PromptRun::prepare() {
  Task<void> fetching = fetch_turns();
  co_await fetching;
  PrepareJob::Reply prepared = Error{};
  const bool needs_vocabulary =
      request_.job.request->rules.constraint || !request_.job.request->rules.dry_breakers.empty();
  if (text_bytes(request_.job.request->prompt) <= kShortText && !needs_vocabulary) {
    prepared = prepare_prompt(*request_.job.request, *request_.job.model);
  } else {
    auto asked = request_.job.texts->ask(
        PrepareJob{{.request = request_.job.request, .model = request_.job.model}}, request_.lost.token());
    Result<PrepareJob::Reply> answered = co_await asked;
    if (!answered.ok() && answered.error().code == runtime::ErrorCode::kDeadline) {
      co_return Error{ErrorKind::kOverloaded, "the request waited too long for its prompt to be prepared", "",
                      std::chrono::seconds(5)};
    }
    if (!answered.ok()) co_return request_.failure_of(answered.error());
    prepared = std::move(*answered);
  }
  if (!prepared.ok()) co_return prepared.error();
  request_.prompt = std::move(*prepared);
  request_.usage.recognized_calls = request_.prompt.recognized_calls;
  co_return std::nullopt;
}

RequestFailure PromptRun::settle_budget(Computation& computation) const {
  const auto refuse = [](const std::string& why) {
    return Error{ErrorKind::kInvalid, "kv_budget: " + why, "kv_budget"};
  };
  if (request_.job.request->embedding) return std::nullopt;  // nothing is decoded, so nothing is compacted
  KvBudget wanted = request_.job.model->kv;
  if (request_.job.request->cache.kv_budget) wanted.tokens = *request_.job.request->cache.kv_budget;
  if (wanted.tokens == 0) return std::nullopt;
  if (const std::string& why = request_.job.model->arch.no_compaction; !why.empty()) {
    return refuse("prompts of this model cannot be compacted: " + why);
  }
  if (const std::string why = refusal_of(wanted); !why.empty()) return refuse(why);
  if (!wanted.shortens(request_.prompt.tokens->size())) return std::nullopt;
  computation.kv = wanted;
  return std::nullopt;
}

// -- opening a sequence

Task<RequestFailure> PromptRun::enter(Computation& computation, protocol::Priority priority) {
  computation.report.prompt_tokens = static_cast<std::uint32_t>(computation.tokens->size());
  if (computation.writes_cache) {
    Task<Failure> announcing = announce(computation);
    if (Failure failure = co_await announcing) co_return failure;
  }
  Task<Failure> opening = open(computation, priority);
  Failure failure = co_await opening;
  co_return failure;
}

Task<RequestFailure> PromptRun::announce(Computation& computation) {
  const ServedModel& model = *request_.job.model;
  computation.flight = std::make_unique<FlightGuard>(model.registry);
  computation.number = computation.flight->number();
  if (computation.request == 0) computation.request = computation.number;
  auto asked = model.registry.ask(protocol::Announce{.flight = computation.number,
                                                     .name_space = request_.job.name_space,
                                                     .prompt = computation.tokens,
                                                     .max_tokens = computation.max_restored()},
                                  kPatience, request_.lost.token());
  const Result<protocol::Announced> announced = co_await asked;
  if (!announced.ok()) co_return request_.failure_of(announced.error());
  computation.announced = *announced;
  computation.report.waited_for_other = announced->waited;
  request_.trace().mark("announced", {{"known", announced->known},
                                      {"restorable", announced->restorable},
                                      {"waited_for_other", announced->waited}});
  co_return std::nullopt;
}

Task<RequestFailure> PromptRun::open(Computation& computation, protocol::Priority priority) {
  const ServedModel& model = *request_.job.model;
  const auto length = static_cast<std::uint32_t>(computation.tokens->size());
  const std::uint32_t shared = computation.announced ? computation.announced->restorable : 0;
  computation.sequence = std::make_unique<OpenedSequence>(model);
  protocol::OpenSequence open{
      .arch = model.arch.arch,
      .adapter = request_.adapter(),
      .ticket = computation.sequence->ticket(),
      .prompt_tokens = length,
      .max_tokens = computation.max_tokens,
      .shared_tokens = shared,
      .kv = computation.kv,
      .keeps_prompt = &computation == request_.main.get() && request_.job.request->n > 1,
      .priority = priority,
      .tenant = request_.job.tenant,
      .group = request_.job.group,
      .tenant_share = request_.job.request->origin.tenant_share,
      .trace = request_.trace()};
  auto asked = model.worker.ask(std::move(open), model.limits.max_wait, request_.lost.token());
  const protocol::JobResult<protocol::Opened> opened = protocol::answer_of(co_await asked);
  if (!opened.ok()) co_return request_.failure_of(opened.error());
  computation.sequence->id = opened->sequence;
  request_.trace().mark("admitted",
                        {{"price_bytes", opened->price_bytes}, {"sequence", opened->sequence.number}});
  co_return std::nullopt;
}

Task<RequestFailure> PromptRun::restore(Computation& computation) {
  const ServedModel& model = *request_.job.model;
  protocol::CacheReport& report = computation.report;
  constexpr int kTries = 3;  // a damaged entry is dropped, and the next best is tried
  for (int i = 0; i < kTries && computation.reads_cache && computation.announced; ++i) {
    auto asked = model.registry.ask(protocol::Lookup{.flight = computation.number,
                                                     .sequence = computation.sequence->id,
                                                     .min_tokens = request_.job.request->cache.min_tokens},
                                    kPatience, request_.lost.token());
    const Result<protocol::LookedUp> found = co_await asked;
    if (!found.ok()) co_return request_.failure_of(found.error());
    if (report.reason == MissReason::kNone) report.reason = found->reason;
    report.known_tokens = found->known;
    report.lost_tokens = found->lost;
    report.behind_tokens = found->beyond;
    request_.trace().mark("looked_up",
                          {{"known", found->known}, {"reason", protocol::name_of(found->reason)}});
    computation.wanted = found->wanted;
    if (found->brought) {
      const protocol::LookedUp& looked_up = *found;
      Task<Failure> loading = load(computation, looked_up);
      if (Failure failure = co_await loading) co_return failure;
      if (report.restored_tokens > 0) break;
    }
    if (!found->restore) break;
    const protocol::LookedUp::Restore from = *found->restore;
    Task<Failure> restoring = restore_found(computation, from);
    if (Failure failure = co_await restoring) co_return failure;
    if (report.restored_tokens > 0) break;
    if (report.reason == MissReason::kNoMemory) break;  // a smaller one would not fit either
  }
  if (computation.conversation == 0) computation.conversation = new_conversation();
  co_return std::nullopt;
}

Task<RequestFailure> PromptRun::restore_found(Computation& computation, protocol::LookedUp::Restore from) {
  const ServedModel& model = *request_.job.model;
  protocol::CacheReport& report = computation.report;
  auto restoring = model.worker.ask(
      protocol::RestoreKv{.sequence = computation.sequence->id,
                          .snapshot = from.snapshot,
                          .at = from.at,
                          .token_hash = token_hash(std::span(*computation.tokens).first(from.at))},
      model.limits.max_wait, request_.lost.token());
  const Restoring restored = protocol::answer_of(co_await restoring);
  using protocol::ErrorKind;
  const bool unanswered = !restored.ok() && restored.error().kind == ErrorKind::kNoAnswer;
  MissReason failed = MissReason::kNone;
  if (!restored.ok() && !unanswered) {
    const ErrorKind fault = restored.error().kind;
    failed = fault == ErrorKind::kDamaged    ? MissReason::kCorrupt
             : fault == ErrorKind::kNoMemory ? MissReason::kNoMemory
                                             : MissReason::kLost;
  }
  model.registry.tell(protocol::EndLease{.flight = computation.number, .failed = failed});
  if (unanswered) co_return request_.failure_of(restored.error());
  if (failed != MissReason::kNone) {
    report.reason = failed;
    if (model.warn) {
      model.warn("a snapshot of " + std::to_string(from.at) + " tokens (" +
                 std::string(protocol::name_of(from.origin)) +
                 ") could not be restored: " + restored.error().message);
    }
    co_return std::nullopt;
  }
  request_.trace().mark("restored", {{"tokens", from.at}, {"origin", protocol::name_of(from.origin)}});
  report.restored_tokens = from.at;
  report.origin = from.origin;
  report.tier = protocol::Tier::kDevice;
  if (computation.conversation == 0 && carries_on(from.origin)) computation.conversation = from.conversation;
  co_return std::nullopt;
}

Task<RequestFailure> PromptRun::load(Computation& computation, const protocol::LookedUp& found) {
  const ServedModel& model = *request_.job.model;
  const protocol::LookedUp::Brought& brought = *found.brought;
  protocol::CacheReport& report = computation.report;
  auto loading = model.worker.ask(
      protocol::LoadKv{
          .sequence = computation.sequence->id, .state = brought.state, .tokens = computation.tokens},
      model.limits.max_wait, request_.lost.token());
  const Restoring loaded = protocol::answer_of(co_await loading);
  if (!loaded.ok()) {
    if (loaded.error().kind == protocol::ErrorKind::kNoAnswer) co_return request_.failure_of(loaded.error());
    report.reason =
        loaded.error().kind == protocol::ErrorKind::kNoMemory ? MissReason::kNoMemory : MissReason::kLost;
    if (model.warn) model.warn("cache tier: a snapshot could not be loaded: " + loaded.error().message);
    co_return std::nullopt;
  }
  const std::uint32_t at = brought.state->stored;
  request_.trace().mark("loaded", {{"tokens", at}, {"tier", protocol::name_of(brought.tier)}});
  model.registry.tell(
      protocol::EndLease{.flight = computation.number, .brought_tokens = at, .tier = brought.tier});
  report.restored_tokens = at;
  report.known_tokens = std::max(found.known, at);
  const auto possible =
      std::min(report.known_tokens, report.prompt_tokens - 1) / model.arch.grid * model.arch.grid;
  if (at >= possible) report.reason = MissReason::kNone;
  report.lost_tokens = possible - std::min(possible, at);
  report.origin = brought.origin;
  report.tier = brought.tier;
  if (computation.conversation == 0) computation.conversation = new_conversation();
  // Snapshot the loaded state, so that the device has it cached again.
  protocol::CheckpointPlan plan = plan_of(computation);
  plan.checkpoints = {{.at = at, .origin = brought.origin}};
  auto asked = model.worker.ask(
      protocol::SnapshotKv{.sequence = computation.sequence->id,
                           .kind = protocol::SnapshotKv::Kind::kCanonical,
                           .plan = std::make_shared<const protocol::CheckpointPlan>(std::move(plan))},
      model.limits.max_wait, request_.lost.token());
  const protocol::JobResult<protocol::SnapshotTaken> taken = protocol::answer_of(co_await asked);
  if (taken.ok() && taken->reported) ++computation.reported;
  co_return std::nullopt;
}

void PromptRun::plan_prompt_checkpoints() {
  const ServedModel& model = *request_.job.model;
  Computation& main = *request_.main;
  protocol::MessageBorders borders = model.borders(*main.tokens);
  borders.after_tool = goes_on_from_tool(*request_.job.request);
  main.keep = borders.after_last_user.value_or(0) / model.arch.grid * model.arch.grid;
  CheckpointRules rules = model.checkpoints;
  rules.max_restored = main.max_restored();
  main.plan =
      actors::plan_checkpoints(*main.tokens, borders, main.report.restored_tokens, main.announced->branch,
                               main.wanted, rules, request_.prompt.breakpoints);
}

Task<RequestFailure> PromptRun::prefill(Computation& computation, bool want_digest,
                                        std::optional<protocol::Decode> decode) {
  const ServedModel& model = *request_.job.model;
  const auto end = static_cast<std::uint32_t>(computation.tokens->size());
  protocol::Prefill prefill{.sequence = computation.sequence->id,
                            .tokens = computation.tokens,
                            .end = end,
                            .plan = {},
                            .want_digest = want_digest,
                            .hidden = computation.wants_hidden,
                            .decode = std::move(decode)};
  if (computation.writes_cache) {
    protocol::CheckpointPlan plan = plan_of(computation);
    plan.checkpoints = computation.plan;
    prefill.plan = std::make_shared<const protocol::CheckpointPlan>(std::move(plan));
  }
  tells_slices_ = &computation == request_.main.get() && request_.job.request->report.progress;
  if (tells_slices_) {
    runtime::Stream<std::uint32_t> slices = runtime::make_stream<std::uint32_t>(1);
    prefill.progress = std::move(slices.writer);
    request_.launch(tell_slices(std::move(slices.reader)));
  }
  prefilling_ = &computation == request_.main.get() && computation.writes_cache;
  auto asked = model.worker.ask(std::move(prefill), kPatience, request_.lost.token());
  protocol::JobResult<protocol::Prefilled> prefilled = protocol::answer_of(co_await asked);
  prefilling_ = tells_slices_ = false;
  if (!prefilled.ok()) co_return request_.failure_of(prefilled.error());
  request_.trace().mark("prefilled", {{"tokens", prefilled->computed}, {"checkpoints", prefilled->reported}});
  computation.report.prefilled_tokens = prefilled->computed;
  computation.digest = prefilled->digest;
  computation.hidden = std::move(prefilled->hidden);
  computation.kept = prefilled->kept;
  computation.reported += prefilled->reported;
  if (computation.flight) {
    request_.launch(settle(computation.number, computation.reported));
  }
  if (request_.client_gone) {  // the prefill was cut short: keep its checkpoints
    Task<void> settling = all_settled();
    co_await settling;
    request_.break_off();
    co_return protocol::Error{protocol::ErrorKind::kCanceled, "the client has disconnected"};
  }
  co_return std::nullopt;
}

protocol::CheckpointPlan PromptRun::plan_of(const Computation& computation) const {
  return {.flight = computation.number,
          .request = computation.request,
          .name_space = request_.job.name_space,
          .conversation = computation.conversation,
          .keep = computation.keep,
          .disk_retention = request_.job.request->cache.disk_retention};
}

// After this, no request waits for the flight. The sequence must not be closed before its snapshots are
// adopted.
Task<void> PromptRun::settle(protocol::FlightNumber flight, std::uint32_t reported) {
  ++settling_;
  return settle_counted(flight, reported);
}

Task<void> PromptRun::settle_counted(protocol::FlightNumber flight, std::uint32_t reported) {
  auto asked = request_.job.model->registry.ask(protocol::Settle{.flight = flight, .reported = reported},
                                                kPatience, request_.lost.token());
  const Result<protocol::FlightSettled> settled = co_await asked;  // on failure nothing more is adopted
  if (settled.ok() && request_.main && flight == request_.main->number) {
    request_.usage.cache.kept_tokens = std::max(request_.usage.cache.kept_tokens, settled->kept);
  }
  --settling_;
  settled_.signal();
}

Task<void> PromptRun::pin_prompt() {
  auto asked =
      request_.job.model->registry.ask(protocol::Pin{.flight = request_.main->number,
                                                     .time = request_.job.request->cache.pin,
                                                     .ticket = request_.job.request->cache.pin_ticket,
                                                     .tokens = request_.job.request->cache.pin_tokens,
                                                     .moves = request_.job.request->cache.pin_moves},
                                       kPatience, request_.lost.token());
  Result<protocol::Pinned> pinned = co_await asked;
  if (!pinned.ok()) co_return;
  request_.usage.cache.pinned_tokens = pinned->tokens;
  request_.usage.pin_problem = std::move(pinned->problem);
}

Task<void> PromptRun::all_settled() {
  while (settling_ > 0) {
    auto waiting = settled_.wait(runtime::TimePoint::max(), request_.lost.token());
    const Result<void> woken = co_await waiting;
    if (!woken.ok()) co_return;
  }
}

// -- progress

protocol::Progress PromptRun::progress_at(std::uint32_t processed) const {
  return {.total = request_.usage.prompt_tokens,
          .restored = request_.main->report.restored_tokens,
          .processed = processed,
          .ms = request_.since_arrival_ms() - request_.usage.timing.queued_ms};
}

// Skips events while the client has no credit: a later one includes them.
Task<void> PromptRun::tell_slices(runtime::StreamReader<std::uint32_t> slices) {
  ProgressPace pace(request_.main->report.restored_tokens);
  for (;;) {
    auto reading = slices.next(runtime::TimePoint::max(), request_.lost.token());
    const Result<std::uint32_t> processed = co_await reading;
    if (!processed.ok() || !tells_slices_) co_return;
    if (*processed >= request_.usage.prompt_tokens || !pace.allows(*processed, runtime::Clock::now()))
      continue;
    protocol::Event event = progress_at(*processed);
    static_cast<void>(request_.job.out.try_write(event));
  }
}

}  // namespace reprise::actors
