#include "actors/request/request_actor.h"

#include <exception>

#include "actors/request/request_parts.h"
#include "runtime/wait.h"

namespace reprise::actors {

using protocol::JobFault;
using protocol::ServiceError;
using protocol::ServiceErrorCode;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::seconds kLastWord{10};
constexpr std::chrono::milliseconds kTurnsDeadline{
    500};                                            // for a store that may be slow: turns are rendered then
constexpr std::size_t kMaxFetched = 256;             // turns of one request, from a store
constexpr std::chrono::seconds kLastCheckpoint{30};  // of a prompt that nobody waits for any more

}  // namespace

RequestActor::RequestActor(RequestJob job) : job_(std::move(job)), arrival_(runtime::Clock::now()) {
  if (!job_.meter) job_.meter = std::make_shared<RequestMeter>(0, job_.name);
}
RequestActor::~RequestActor() = default;

void RequestActor::on_start() {
  launch(watch_client());
  launch(run());
}

bool RequestActor::caches() const {
  return job_.request->cache_prompt && job_.model->registry;
}

double RequestActor::since_arrival_ms() const {
  return std::chrono::duration<double, std::milli>(runtime::Clock::now() - arrival_).count();
}

// While the request sends nothing, this is how it learns that its client has gone.
Task<void> RequestActor::watch_client() {
  auto end = job_.out.reader_end(end_of_watch_.token());
  const Result<void> ended = co_await end;
  if (!ended.ok()) co_return;
  client_gone_ = true;
  if (prefilling_) {  // what was computed is kept, and prefill() breaks off then
    job_.model->worker.tell(protocol::LeaveOff{main_->sequence->id});
    auto pause = runtime::sleep_for(kLastCheckpoint);
    const Result<void> rested = co_await pause;
    if (!rested.ok()) co_return;
  }
  break_off();
}

void RequestActor::on(ModelLost lost) {
  if (lost.worker != 0 && lost.worker != job_.model->worker.id()) return;
  if (lost.adapter && lost.adapter != adapter()) return;
  lost_why_ = std::move(lost.why);
  break_off();
}

void RequestActor::break_off() {
  lost_.cancel();
  all_begun_.cancel();
}

Task<void> RequestActor::run() {
  Failure failure;
  try {
    Task<Failure> serving = serve();
    failure = co_await serving;
  } catch (const std::exception& error) {
    failure = ServiceError{ServiceErrorCode::kInternal, error.what()};
  }
  end_of_watch_.cancel();
  tells_slices_ = false;
  if (main_) {
    main_->sequence.reset();
    main_->flight.reset();
  }
  const bool served = !failure && !client_gone_;
  if (failure && !client_gone_) {
    protocol::Event event = protocol::Failed{std::move(*failure)};
    const auto written = job_.out.try_write(event);
    if (!written) {  // a client that reads slowly has a while to come to it
      auto writing = job_.out.write(std::move(event), runtime::deadline_after(kLastWord));
      const Result<void> told = co_await writing;
      static_cast<void>(told);  // else the stream's end tells it
    }
  }
  job_.meter->ended.store(true, std::memory_order_relaxed);
  job_.out.close();
  if (job_.ends_trace) trace().end(served ? "answered" : client_gone_ ? "abandoned" : "failed");
  job_.slot.reset();
  const bool left_off = left_off_in_reply();
  if (left_off) lost_ = runtime::CancelSource();  // what waited for the client's sake has ended
  const bool idles = (served || left_off) && job_.idle_slot && !lost_.cancelled();
  if (to_verify_ && !(idles && served))
    job_.model->registry_figures->unverified.fetch_add(1, std::memory_order_relaxed);
  if (idles) {
    try {
      if (to_verify_ && served) {
        trace().mark("verifies");
        Task<bool> verifying = verify(protocol::Priority::kIdle);
        const bool same = co_await verifying;
        static_cast<void>(same);  // the entry is dropped, the counters and the log tell
      }
      const bool chat = std::holds_alternative<protocol::ChatPrompt>(job_.request->prompt);
      Task<void> prefilling = left_off || !chat ? prefill_reply() : prefill_history();
      co_await prefilling;
    } catch (const std::exception& error) {
      if (job_.model->warn) job_.model->warn(std::string("work in idle time failed: ") + error.what());
    }
  }
  main_.reset();
  stop();
}

Task<void> RequestActor::fetch_turns() {
  const ServedModel& model = *job_.model;
  const auto* chat = std::get_if<protocol::ChatPrompt>(&job_.request->prompt);
  if (chat == nullptr || !model.turns || !model.turn_store) co_return;
  protocol::FetchTurns fetch{.model = model.arch.identity, .name_space = job_.request->name_space};
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
  auto asked = model.turn_store.ask(std::move(fetch), runtime::deadline_after(kTurnsDeadline), lost_.token());
  Result<protocol::FetchTurns::Reply> fetched = co_await asked;
  if (!fetched.ok()) co_return;
  for (protocol::SharedTurn& turn : *fetched) {
    model.turns->keep(job_.request->tenant, model.arch.identity, job_.request->name_space, std::move(turn));
  }
}

Task<RequestActor::Failure> RequestActor::prepare() {
  Task<void> fetching = fetch_turns();
  co_await fetching;
  PrepareJob::Reply prepared = ServiceError{};
  const bool needs_vocabulary = job_.request->constraint || !job_.request->dry_breakers.empty();
  if (text_bytes(job_.request->prompt) <= kShortText && !needs_vocabulary) {
    prepared = prepare_prompt(*job_.request, *job_.model);
  } else {
    auto asked = job_.texts->ask(PrepareJob{{.request = job_.request, .model = job_.model}}, lost_.token());
    Result<PrepareJob::Reply> answered = co_await asked;
    if (!answered.ok() && answered.error().code == runtime::ErrorCode::kDeadline) {
      co_return ServiceError{ServiceErrorCode::kOverloaded,
                             "the request waited too long for its prompt to be prepared", "",
                             std::chrono::seconds(5)};
    }
    if (!answered.ok()) co_return failure_of(answered.error());
    prepared = std::move(*answered);
  }
  if (!prepared.ok()) co_return prepared.error();
  prompt_ = std::move(*prepared);
  usage_.recognized_calls = prompt_.recognized_calls;
  co_return std::nullopt;
}

Task<RequestActor::Failure> RequestActor::serve() {
  Task<Failure> preparing = prepare();
  if (Failure failure = co_await preparing) co_return failure;
  usage_.prompt_tokens = static_cast<std::uint32_t>(prompt_.tokens->size());
  trace().mark("tokenised", {{"tokens", usage_.prompt_tokens}});
  job_.meter->prompt_tokens.store(usage_.prompt_tokens, std::memory_order_relaxed);
  job_.meter->most_reply_tokens.store(prompt_.max_tokens, std::memory_order_relaxed);

  main_ = std::make_unique<Computation>();
  main_->tokens = prompt_.tokens;
  main_->max_tokens = prompt_.max_tokens;
  if (Failure failure = settle_budget(*main_)) co_return failure;
  main_->reads_cache = main_->writes_cache = caches();
  if (!job_.request->conversation.empty()) {
    main_->conversation = std::hash<std::string>{}(job_.name_space + '\n' + job_.request->conversation) | 1;
  }
  main_->report.reason = !job_.model->registry         ? protocol::MissReason::kDisabled
                         : !job_.request->cache_prompt ? protocol::MissReason::kRefused
                                                       : protocol::MissReason::kNone;
  if (job_.request->embedding) {
    const bool mean = job_.request->embedding->pooling == protocol::Pooling::kMean;
    main_->wants_hidden = mean ? protocol::Prefill::Hidden::kSum : protocol::Prefill::Hidden::kLast;
    if (mean && main_->reads_cache) {  // snapshots have no hidden states: every token has to be computed
      main_->reads_cache = false;
      main_->report.reason = protocol::MissReason::kUncacheable;
    }
  }
  Task<Failure> entering = enter(*main_, job_.request->priority);
  if (Failure failure = co_await entering) co_return failure;
  usage_.timing.queued_ms = since_arrival_ms();
  protocol::Event admitted = protocol::Admitted{job_.name, usage_.prompt_tokens, job_.model->arch.context};
  static_cast<void>(job_.out.try_write(admitted));

  Task<Failure> restoring = restore(*main_);
  if (Failure failure = co_await restoring) co_return failure;
  job_.meter->reused_tokens.store(main_->report.restored_tokens, std::memory_order_relaxed);
  if (job_.request->want_progress) {
    protocol::Event restored = progress_at(main_->report.restored_tokens);
    static_cast<void>(job_.out.try_write(restored));
  }
  to_verify_ = main_->report.restored_tokens > 0 && job_.model->limits.verify_share > 0 &&
               static_cast<double>(main_->number * 0x9e3779b97f4a7c15ULL >> 11) * 0x1p-53 <
                   job_.model->limits.verify_share;
  Task<Failure> prefilling = prefill(*main_, to_verify_);
  if (Failure failure = co_await prefilling) co_return failure;
  usage_.timing.prefill_ms = since_arrival_ms() - usage_.timing.queued_ms;
  main_->report.kept_tokens = usage_.cache.kept_tokens;
  usage_.cache = main_->report;
  if (main_->reads_cache && main_->announced)
    job_.model->registry_figures->count_request(main_->report, job_.model->arch.grid);
  usage_.kv = main_->kept;
  if (job_.request->want_progress) {
    Task<bool> telling = send(progress_at(usage_.prompt_tokens));
    const bool told = co_await telling;
    static_cast<void>(told);  // a client that has gone is noticed below
  }
  Task<bool> starting =
      send(protocol::Started{main_->report, prompt_.tail, prompt_.tokens, 0, std::move(prompt_.settled)});
  const bool was_started = co_await starting;
  static_cast<void>(was_started);

  Task<Failure> decoding = job_.request->embedding ? give_embedding() : decode();
  if (Failure failure = co_await decoding) co_return failure;
  main_->sequence.reset();
  if (to_verify_ && job_.model->limits.verify_inline) {
    to_verify_ = false;
    Task<bool> verifying = verify(job_.request->priority);
    const bool same = co_await verifying;
    if (!same) {
      co_return ServiceError{ServiceErrorCode::kInternal,
                             "this answer used a restored snapshot that differs from what a cold run "
                             "computes; the snapshot was dropped, send the request again"};
    }
  }
  trace().mark("finished", {{"tokens", usage_.completion_tokens}});
  if (job_.request->want_timeline) usage_.timeline = trace().marks();
  if (job_.request->want_explained && job_.model->tokenizer &&
      main_->report.reason != protocol::MissReason::kNone) {
    usage_.miss_text = text_around(*prompt_.tokens, main_->report.known_tokens, *job_.model->tokenizer);
  }
  Task<bool> sending = send(protocol::Done{usage_});
  const bool sent = co_await sending;
  client_gone_ = client_gone_ || !sent;
  co_return std::nullopt;
}

RequestActor::Failure RequestActor::settle_budget(Computation& computation) const {
  const auto refuse = [](const std::string& why) {
    return ServiceError{ServiceErrorCode::kInvalid, "kv_budget: " + why, "kv_budget"};
  };
  if (job_.request->embedding) return std::nullopt;  // nothing is decoded
  KvBudget wanted = job_.model->kv;
  if (job_.request->kv_budget) wanted.tokens = *job_.request->kv_budget;
  if (wanted.tokens == 0) return std::nullopt;
  if (const std::string& why = job_.model->arch.no_compaction; !why.empty()) {
    return refuse("prompts of this model cannot be compacted: " + why);
  }
  if (const std::string why = refusal_of(wanted); !why.empty()) return refuse(why);
  if (!wanted.shortens(prompt_.tokens->size())) return std::nullopt;
  computation.kv = wanted;
  return std::nullopt;
}

protocol::Progress RequestActor::progress_at(std::uint32_t processed) const {
  return {.total = usage_.prompt_tokens,
          .restored = main_->report.restored_tokens,
          .processed = processed,
          .ms = since_arrival_ms() - usage_.timing.queued_ms};
}

// A slice is not waited for: where the client reads too slowly, a later one tells more.
Task<void> RequestActor::tell_slices(runtime::StreamReader<std::uint32_t> slices) {
  ProgressPace pace(main_->report.restored_tokens);
  for (;;) {
    auto reading = slices.next(runtime::TimePoint::max(), lost_.token());
    const Result<std::uint32_t> processed = co_await reading;
    if (!processed.ok() || !tells_slices_) co_return;
    if (*processed >= usage_.prompt_tokens || !pace.allows(*processed, runtime::Clock::now())) continue;
    protocol::Event event = progress_at(*processed);
    static_cast<void>(job_.out.try_write(event));
  }
}

// -- failures

RequestActor::Failure RequestActor::failure_of(const protocol::JobError& error) const {
  ServiceError failure{ServiceErrorCode::kInternal, error.message};
  switch (error.fault) {
    case JobFault::kNeverFits:
      failure.code = ServiceErrorCode::kTooLong;
      break;
    case JobFault::kNoMemory:
    case JobFault::kBusy:
      failure.code = ServiceErrorCode::kOverloaded;
      failure.retry_after = std::chrono::seconds(1);
      break;
    case JobFault::kCannotSample:
      failure.code = ServiceErrorCode::kInvalid;
      failure.field = "logit_bias";
      break;
    case JobFault::kCancelled:
      failure.code = ServiceErrorCode::kCancelled;
      break;
    case JobFault::kUnknown:
    case JobFault::kDeviceFailed:
      if (!lost_why_.empty()) failure.message = lost_why_;  // what it was told says more
      failure.code = ServiceErrorCode::kUnavailable;
      failure.retry_after = std::chrono::seconds(1);
      break;
    case JobFault::kNoAnswer:
      return unanswered(error.no_answer, error.message);
    case JobFault::kBadJob:
    case JobFault::kDamaged:
    case JobFault::kUnhealthy:
      break;
  }
  return failure;
}

RequestActor::Failure RequestActor::unanswered(runtime::ErrorCode code, const std::string& what) const {
  if (!lost_why_.empty()) {
    return ServiceError{ServiceErrorCode::kUnavailable, lost_why_, "", std::chrono::seconds(1)};
  }
  if (client_gone_) return ServiceError{ServiceErrorCode::kCancelled, "the client has disconnected"};
  if (code == runtime::ErrorCode::kDeadline) {
    return ServiceError{ServiceErrorCode::kOverloaded, "the request waited too long for the device", "",
                        std::chrono::seconds(5)};
  }
  return ServiceError{ServiceErrorCode::kUnavailable, "the engine does not answer: " + what, "",
                      std::chrono::seconds(1)};
}

}  // namespace reprise::actors
