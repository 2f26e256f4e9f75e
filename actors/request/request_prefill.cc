// From tokens to a sequence that holds them: announce, open, restore, prefill; checkpoints on the way.

#include <algorithm>

#include "actors/request/request_parts.h"
#include "base/token.h"

namespace reprise::actors {

using protocol::MissReason;
using protocol::Origin;
using runtime::Result;
using runtime::Task;

namespace {

// A long prompt on a slow device takes its time; the client's going, or the model's, ends these waits.
constexpr std::chrono::hours kPatience{24};

std::uint64_t new_conversation() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(2, std::memory_order_relaxed) +
         2;  // even: no client's key; relaxed: hands out numbers
}

bool carries_on(Origin origin) {
  return origin == Origin::kHistory || origin == Origin::kPromptEnd || origin == Origin::kTurnEnd ||
         origin == Origin::kReply || origin == Origin::kCall ||
         origin == Origin::kLastUser;  // a turn that was prefilled in idle time begins there
}

/// Whether the model is to go on from what a tool has said.
bool goes_on_from_tool(const protocol::GenerateRequest& request) {
  const auto* chat = std::get_if<protocol::ChatPrompt>(&request.prompt);
  if (chat == nullptr || !chat->add_generation_prompt || !chat->messages.is_array() ||
      chat->messages.size() == 0) {
    return false;
  }
  // Agents put a system's notes behind results.
  const Json::Array& messages = chat->messages.as_array();
  for (auto last = messages.rbegin(); last != messages.rend(); ++last) {
    const std::string* role = last->find_string("role");
    if (role == nullptr || (*role != "system" && *role != "developer"))
      return role != nullptr && *role == "tool";
  }
  return false;
}

}  // namespace

Task<RequestActor::Failure> RequestActor::enter(Computation& computation, protocol::Priority priority) {
  computation.report.prompt_tokens = static_cast<std::uint32_t>(computation.tokens->size());
  if (computation.writes_cache) {
    Task<Failure> announcing = announce(computation);
    if (Failure failure = co_await announcing) co_return failure;
  }
  Task<Failure> opening = open(computation, priority);
  Failure failure = co_await opening;
  co_return failure;
}

Task<RequestActor::Failure> RequestActor::announce(Computation& computation) {
  const ServedModel& model = *job_.model;
  computation.flight = std::make_unique<FlightGuard>(model.registry);
  computation.number = computation.flight->number();
  if (computation.request == 0) computation.request = computation.number;
  auto asked = model.registry.ask(protocol::Announce{.flight = computation.number,
                                                     .name_space = job_.name_space,
                                                     .prompt = computation.tokens,
                                                     .most_tokens = computation.most_restored()},
                                  kPatience, lost_.token());
  const Result<protocol::Announced> announced = co_await asked;
  if (!announced.ok()) co_return failure_of(announced.error());
  computation.announced = *announced;
  computation.report.waited_for_other = announced->waited;
  trace().mark("announced", {{"known", announced->known},
                             {"restorable", announced->restorable},
                             {"waited_for_other", announced->waited}});
  co_return std::nullopt;
}

Task<RequestActor::Failure> RequestActor::open(Computation& computation, protocol::Priority priority) {
  const ServedModel& model = *job_.model;
  const auto length = static_cast<std::uint32_t>(computation.tokens->size());
  const std::uint32_t shared = computation.announced ? computation.announced->restorable : 0;
  computation.sequence = std::make_unique<OpenedSequence>(model);
  protocol::OpenSequence open{.arch = model.arch.arch,
                              .adapter = adapter(),
                              .ticket = computation.sequence->ticket(),
                              .prompt_tokens = length,
                              .max_tokens = computation.max_tokens,
                              .shared_tokens = shared,
                              .kv = computation.kv,
                              .keeps_prompt = &computation == main_.get() && job_.request->n > 1,
                              .priority = priority,
                              .tenant = job_.tenant,
                              .group = job_.group,
                              .tenant_share = job_.request->tenant_share,
                              .trace = trace()};
  auto asked = model.worker.ask(std::move(open), model.limits.longest_wait, lost_.token());
  const protocol::JobResult<protocol::Opened> opened = protocol::answer_of(co_await asked);
  if (!opened.ok()) co_return failure_of(opened.error());
  computation.sequence->id = opened->sequence;
  trace().mark("admitted", {{"price_bytes", opened->price_bytes}, {"sequence", opened->sequence.number}});
  co_return std::nullopt;
}

Task<RequestActor::Failure> RequestActor::restore(Computation& computation) {
  const ServedModel& model = *job_.model;
  protocol::CacheReport& report = computation.report;
  constexpr int kTries = 3;  // a damaged entry is dropped, and the next best looked for
  for (int i = 0; i < kTries && computation.reads_cache && computation.announced; ++i) {
    auto asked = model.registry.ask(protocol::Lookup{.flight = computation.number,
                                                     .sequence = computation.sequence->id,
                                                     .min_tokens = job_.request->min_cache_tokens},
                                    kPatience, lost_.token());
    const Result<protocol::LookedUp> found = co_await asked;
    if (!found.ok()) co_return failure_of(found.error());
    if (report.reason == MissReason::kNone) report.reason = found->reason;
    report.known_tokens = found->known;
    report.lost_tokens = found->lost;
    report.behind_tokens = found->behind;
    trace().mark("looked_up", {{"known", found->known}, {"reason", protocol::name_of(found->reason)}});
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

Task<RequestActor::Failure> RequestActor::restore_found(Computation& computation,
                                                        protocol::LookedUp::Restore from) {
  const ServedModel& model = *job_.model;
  protocol::CacheReport& report = computation.report;
  auto restoring = model.worker.ask(
      protocol::RestoreKv{.sequence = computation.sequence->id,
                          .snapshot = from.snapshot,
                          .at = from.at,
                          .token_hash = token_hash(std::span(*computation.tokens).first(from.at))},
      model.limits.longest_wait, lost_.token());
  const Restoring restored = protocol::answer_of(co_await restoring);
  using protocol::JobFault;
  const bool unanswered = !restored.ok() && restored.error().fault == JobFault::kNoAnswer;
  MissReason failed = MissReason::kNone;
  if (!restored.ok() && !unanswered) {
    const JobFault fault = restored.error().fault;
    failed = fault == JobFault::kDamaged    ? MissReason::kCorrupt
             : fault == JobFault::kNoMemory ? MissReason::kNoMemory
                                            : MissReason::kLost;
  }
  model.registry.tell(protocol::EndLease{.flight = computation.number, .failed = failed});
  if (unanswered) co_return failure_of(restored.error());
  if (failed != MissReason::kNone) {
    report.reason = failed;
    if (model.warn) {
      model.warn("a snapshot of " + std::to_string(from.at) + " tokens (" +
                 std::string(protocol::name_of(from.origin)) +
                 ") could not be restored: " + restored.error().message);
    }
    co_return std::nullopt;
  }
  trace().mark("restored", {{"tokens", from.at}, {"origin", protocol::name_of(from.origin)}});
  report.restored_tokens = from.at;
  report.origin = from.origin;
  report.tier = protocol::Tier::kDevice;
  if (computation.conversation == 0 && carries_on(from.origin)) computation.conversation = from.conversation;
  co_return std::nullopt;
}

Task<RequestActor::Failure> RequestActor::load(Computation& computation, const protocol::LookedUp& found) {
  const ServedModel& model = *job_.model;
  const protocol::LookedUp::Brought& brought = *found.brought;
  protocol::CacheReport& report = computation.report;
  auto loading = model.worker.ask(
      protocol::LoadKv{
          .sequence = computation.sequence->id, .state = brought.state, .tokens = computation.tokens},
      model.limits.longest_wait, lost_.token());
  const Restoring loaded = protocol::answer_of(co_await loading);
  if (!loaded.ok()) {
    if (loaded.error().fault == protocol::JobFault::kNoAnswer) co_return failure_of(loaded.error());
    report.reason =
        loaded.error().fault == protocol::JobFault::kNoMemory ? MissReason::kNoMemory : MissReason::kLost;
    if (model.warn) model.warn("cache tier: a snapshot could not be loaded: " + loaded.error().message);
    co_return std::nullopt;
  }
  const std::uint32_t at = brought.state->stored;
  trace().mark("loaded", {{"tokens", at}, {"tier", protocol::name_of(brought.tier)}});
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
  // It stands above again from now on.
  protocol::CheckpointPlan plan = plan_of(computation);
  plan.places = {{.at = at, .origin = brought.origin}};
  auto asked = model.worker.ask(
      protocol::SnapshotKv{.sequence = computation.sequence->id,
                           .kind = protocol::SnapshotKv::Kind::kCanonical,
                           .plan = std::make_shared<const protocol::CheckpointPlan>(std::move(plan))},
      model.limits.longest_wait, lost_.token());
  const protocol::JobResult<protocol::SnapshotTaken> taken = protocol::answer_of(co_await asked);
  if (taken.ok() && taken->reported) ++computation.reported;
  co_return std::nullopt;
}

Task<RequestActor::Failure> RequestActor::prefill(Computation& computation, bool want_digest) {
  const ServedModel& model = *job_.model;
  const auto end = static_cast<std::uint32_t>(computation.tokens->size());
  protocol::Prefill prefill{.sequence = computation.sequence->id,
                            .tokens = computation.tokens,
                            .end = end,
                            .plan = {},
                            .want_digest = want_digest,
                            .hidden = computation.wants_hidden};
  const bool closes_reasoning = model.has_reasoning() &&
                                (ends_reasoning_ || prompt_.reasoning_budget == 0U) &&
                                protocol::opens_thinking(model.card.chat->reply_format(), prompt_.tail);
  if (&computation == main_.get() && job_.request->n == 1 && !prompt_.masks && !closes_reasoning &&
      !job_.request->embedding) {
    prefill.sampling = prompt_.sampling;
    told_sampling_ = true;
  }
  if (computation.writes_cache) {
    if (computation.plan.empty()) {
      protocol::MessageBorders borders = model.borders(*computation.tokens);
      borders.behind_tool = &computation == main_.get() && goes_on_from_tool(*job_.request);
      computation.keep = borders.after_last_user.value_or(0) / model.arch.grid * model.arch.grid;
      PlanRules rules = model.plan_rules();
      rules.most_restored = computation.most_restored();
      computation.plan = plan_checkpoints(
          *computation.tokens, borders, computation.report.restored_tokens, computation.announced->branch,
          computation.wanted, rules,
          &computation == main_.get() ? prompt_.breakpoints : std::vector<PlacedBreakpoint>());
    }
    protocol::CheckpointPlan plan = plan_of(computation);
    plan.places = computation.plan;
    prefill.plan = std::make_shared<const protocol::CheckpointPlan>(std::move(plan));
  }
  tells_slices_ = &computation == main_.get() && job_.request->want_progress;
  if (tells_slices_) {
    runtime::Stream<std::uint32_t> slices = runtime::make_stream<std::uint32_t>(1);
    prefill.progress = std::move(slices.writer);
    launch(tell_slices(std::move(slices.reader)));
  }
  prefilling_ = &computation == main_.get() && computation.writes_cache;
  auto asked = model.worker.ask(std::move(prefill), kPatience, lost_.token());
  protocol::JobResult<protocol::Prefilled> prefilled = protocol::answer_of(co_await asked);
  prefilling_ = tells_slices_ = false;
  if (!prefilled.ok()) co_return failure_of(prefilled.error());
  trace().mark("prefilled", {{"tokens", prefilled->computed}, {"checkpoints", prefilled->reported}});
  computation.report.prefilled_tokens = prefilled->computed;
  computation.digest = prefilled->digest;
  computation.hidden = std::move(prefilled->hidden);
  computation.kept = prefilled->kept;
  computation.reported += prefilled->reported;
  if (computation.flight) {
    ++settling_;
    launch(settle(computation.number, computation.reported));
  }
  if (client_gone_) {  // in the middle of it: what there is so far is kept
    Task<void> settling = all_settled();
    co_await settling;
    break_off();
    co_return protocol::ServiceError{protocol::ServiceErrorCode::kCancelled, "the client has disconnected"};
  }
  co_return std::nullopt;
}

Task<RequestActor::Failure> RequestActor::give_embedding() {
  std::vector<float> values = std::move(main_->hidden);
  if (job_.request->embedding->pooling == protocol::Pooling::kMean) {
    for (float& value : values) value /= static_cast<float>(usage_.prompt_tokens);
  }
  Task<bool> sending = send(protocol::Embedded{.values = std::move(values)});
  const bool sent = co_await sending;
  client_gone_ = client_gone_ || !sent;
  Task<void> settling = all_settled();
  co_await settling;
  co_return std::nullopt;
}

protocol::CheckpointPlan RequestActor::plan_of(const Computation& computation) const {
  return {.flight = computation.number,
          .request = computation.request,
          .name_space = job_.name_space,
          .conversation = computation.conversation,
          .keep = computation.keep,
          .disk_retention = job_.request->disk_retention};
}

// Nobody follows the flight from now on. A sequence must not be closed before its snapshots are adopted.
Task<void> RequestActor::settle(protocol::FlightNumber flight, std::uint32_t reported) {
  auto asked = job_.model->registry.ask(protocol::Settle{.flight = flight, .reported = reported}, kPatience,
                                        lost_.token());
  const Result<protocol::FlightSettled> settled = co_await asked;  // else nothing will be adopted any more
  if (settled.ok() && main_ && flight == main_->number) {
    usage_.cache.kept_tokens = std::max(usage_.cache.kept_tokens, settled->kept);
  }
  --settling_;
  settled_.signal();
}

Task<void> RequestActor::pin_prompt() {
  auto asked = job_.model->registry.ask(protocol::Pin{.flight = main_->number,
                                                      .time = job_.request->pin,
                                                      .ticket = job_.request->pin_ticket,
                                                      .tokens = job_.request->pin_tokens,
                                                      .moves = job_.request->pin_moves},
                                        kPatience, lost_.token());
  Result<protocol::Pinned> pinned = co_await asked;
  if (!pinned.ok()) co_return;
  usage_.cache.pinned_tokens = pinned->tokens;
  usage_.pin_problem = std::move(pinned->problem);
}

Task<void> RequestActor::all_settled() {
  while (settling_ > 0) {
    auto waiting = settled_.wait(runtime::TimePoint::max(), lost_.token());
    const Result<void> woken = co_await waiting;
    if (!woken.ok()) co_return;
  }
}

}  // namespace reprise::actors
