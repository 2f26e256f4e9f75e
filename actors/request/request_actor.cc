#include "actors/request/request_actor.h"

#include <algorithm>
#include <exception>

#include "actors/cache/registry_figures.h"
#include "actors/request/idle_work.h"
#include "actors/request/prompt_run.h"
#include "actors/request/reply_run.h"
#include "actors/request/request_context.h"
#include "runtime/wait.h"

namespace reprise::actors {

using protocol::Error;
using protocol::ErrorKind;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::seconds kLastWord{10};
constexpr std::chrono::seconds kLastCheckpoint{30};  // wait for checkpoints of a prompt whose client is gone

RequestJob with_meter(RequestJob job) {
  if (!job.meter) job.meter = std::make_shared<RequestMeter>(0, job.name);
  return job;
}

}  // namespace

RequestActor::RequestActor(RequestJob job)
    : request_(std::unique_ptr<RequestContext>(
          new RequestContext{.job = with_meter(std::move(job)),
                             .launch = [this](Task<void> task) { launch(std::move(task)); }})),
      prompt_run_(std::make_unique<PromptRun>(*request_)),
      reply_run_(std::make_unique<ReplyRun>(*request_, *prompt_run_)),
      idle_work_(std::make_unique<IdleWork>(*request_, *prompt_run_, *reply_run_)) {}
RequestActor::~RequestActor() = default;

void RequestActor::on_start() {
  launch(watch_client());
  launch(run());
}

void RequestActor::on(EndReasoning) {
  reply_run_->end_reasoning();
}

// Detects that the client is gone while nothing is sent.
Task<void> RequestActor::watch_client() {
  auto end = request_->job.out.reader_end(end_of_watch_.token());
  const Result<void> ended = co_await end;
  if (!ended.ok()) co_return;
  request_->client_gone = true;
  if (prompt_run_->prefilling()) {  // keep what was computed; PromptRun::prefill() then stops
    request_->job.model->worker.tell(protocol::LeaveOff{request_->main->sequence->id});
    auto pause = runtime::sleep_for(kLastCheckpoint);
    const Result<void> rested = co_await pause;
    if (!rested.ok()) co_return;
  }
  request_->break_off();
}

void RequestActor::on(ModelLost lost) {
  if (lost.worker != 0 && lost.worker != request_->job.model->worker.id()) return;
  if (lost.adapter && lost.adapter != request_->adapter()) return;
  request_->lost_why = std::move(lost.why);
  request_->break_off();
}

Task<void> RequestActor::run() {
  RequestJob& job = request_->job;
  RequestFailure failure;
  try {
    Task<RequestFailure> serving = serve();
    failure = co_await serving;
  } catch (const std::exception& error) {
    failure = Error{ErrorKind::kInternal, error.what()};
  }
  end_of_watch_.cancel();
  prompt_run_->stop_telling();
  if (request_->main) {
    request_->main->sequence.reset();
    request_->main->flight.reset();
  }
  const bool served = !failure && !request_->client_gone;
  if (failure && !request_->client_gone) {
    protocol::Event event = protocol::Failed{std::move(*failure)};
    const auto written = job.out.try_write(event);
    if (!written) {  // a slow client gets some time to read it
      auto writing = job.out.write(std::move(event), runtime::deadline_after(kLastWord));
      const Result<void> told = co_await writing;
      static_cast<void>(told);  // otherwise the end of the stream tells the client
    }
  }
  job.meter->ended.store(true, std::memory_order_relaxed);
  job.out.close();
  if (job.ends_trace)
    request_->trace().end(served ? "answered" : request_->client_gone ? "abandoned" : "failed");
  job.slot.reset();
  const bool left_off = idle_work_->left_off_in_reply();
  if (left_off) request_->lost = runtime::CancelSource();  // waits for the client have ended
  const bool idles = (served || left_off) && job.idle_slot && !request_->lost.canceled();
  if (to_verify_ && !(idles && served))
    job.model->registry_figures->unverified.fetch_add(1, std::memory_order_relaxed);
  if (idles) {
    try {
      if (to_verify_ && served) {
        request_->trace().mark("verifies");
        Task<bool> verifying = idle_work_->verify(protocol::Priority::kIdle);
        const bool same = co_await verifying;
        static_cast<void>(same);  // a mismatch is logged, counted, and its entry dropped
      }
      const bool chat = std::holds_alternative<protocol::ChatPrompt>(job.request->prompt);
      Task<void> prefilling = left_off || !chat ? idle_work_->prefill_reply() : idle_work_->prefill_history();
      co_await prefilling;
    } catch (const std::exception& error) {
      if (job.model->warn) job.model->warn(std::string("work in idle time failed: ") + error.what());
    }
  }
  request_->main.reset();
  stop();
}

Task<std::optional<Error>> RequestActor::serve() {
  RequestJob& job = request_->job;
  PreparedPrompt& prompt = request_->prompt;
  protocol::Usage& usage = request_->usage;
  Task<RequestFailure> preparing = prompt_run_->prepare();
  if (RequestFailure failure = co_await preparing) co_return failure;
  usage.prompt_tokens = static_cast<std::uint32_t>(prompt.tokens->size());
  request_->trace().mark("tokenised", {{"tokens", usage.prompt_tokens}});
  job.meter->prompt_tokens.store(usage.prompt_tokens, std::memory_order_relaxed);
  job.meter->max_reply_tokens.store(prompt.max_tokens, std::memory_order_relaxed);

  request_->main = std::make_unique<Computation>();
  Computation& main = *request_->main;
  main.tokens = prompt.tokens;
  main.max_tokens = prompt.max_tokens;
  if (RequestFailure failure = prompt_run_->settle_budget(main)) co_return failure;
  main.reads_cache = main.writes_cache = request_->caches();
  if (!job.request->cache.conversation.empty()) {
    main.conversation = std::hash<std::string>{}(job.name_space + '\n' + job.request->cache.conversation) | 1;
  }
  main.report.reason = !job.model->registry          ? protocol::MissReason::kDisabled
                       : !job.request->cache.enabled ? protocol::MissReason::kRefused
                                                     : protocol::MissReason::kNone;
  if (job.request->embedding) {
    const bool mean = job.request->embedding->pooling == protocol::Pooling::kMean;
    main.wants_hidden = mean ? protocol::Prefill::Hidden::kSum : protocol::Prefill::Hidden::kLast;
    if (mean && main.reads_cache) {  // snapshots have no hidden states: compute every token
      main.reads_cache = false;
      main.report.reason = protocol::MissReason::kUncacheable;
    }
  }
  Task<RequestFailure> entering = prompt_run_->enter(main, job.request->origin.priority);
  if (RequestFailure failure = co_await entering) co_return failure;
  usage.timing.queued_ms = request_->since_arrival_ms();
  protocol::Event admitted = protocol::Admitted{job.name, usage.prompt_tokens, job.model->arch.context};
  static_cast<void>(job.out.try_write(admitted));

  Task<RequestFailure> restoring = prompt_run_->restore(main);
  if (RequestFailure failure = co_await restoring) co_return failure;
  job.meter->reused_tokens.store(main.report.restored_tokens, std::memory_order_relaxed);
  if (job.request->report.progress) {
    protocol::Event restored = prompt_run_->progress_at(main.report.restored_tokens);
    static_cast<void>(job.out.try_write(restored));
  }
  to_verify_ = main.report.restored_tokens > 0 && job.model->limits.verify_share > 0 &&
               static_cast<double>(main.number * 0x9e3779b97f4a7c15ULL >> 11) * 0x1p-53 <
                   job.model->limits.verify_share;
  if (main.writes_cache) prompt_run_->plan_prompt_checkpoints();
  std::optional<protocol::Decode> first = reply_run_->begin();
  Task<RequestFailure> prefilling = prompt_run_->prefill(main, to_verify_, std::move(first));
  if (RequestFailure failure = co_await prefilling) co_return failure;
  usage.timing.prefill_ms = request_->since_arrival_ms() - usage.timing.queued_ms;
  main.report.kept_tokens = usage.cache.kept_tokens;
  usage.cache = main.report;
  if (main.reads_cache && main.announced)
    job.model->registry_figures->count_request(main.report, job.model->arch.grid);
  usage.kv = main.kept;
  if (job.request->report.progress) {
    Task<bool> telling = reply_run_->send(prompt_run_->progress_at(usage.prompt_tokens));
    const bool told = co_await telling;
    static_cast<void>(told);  // a lost client is noticed below
  }
  Task<bool> starting = reply_run_->send(
      protocol::Started{main.report, prompt.tail, prompt.tokens, 0, std::move(prompt.settled)});
  const bool was_started = co_await starting;
  static_cast<void>(was_started);

  Task<RequestFailure> decoding =
      job.request->embedding ? reply_run_->give_embedding() : reply_run_->decode();
  if (RequestFailure failure = co_await decoding) co_return failure;
  main.sequence.reset();
  if (to_verify_ && job.model->limits.verify_inline) {
    to_verify_ = false;
    Task<bool> verifying = idle_work_->verify(job.request->origin.priority);
    const bool same = co_await verifying;
    if (!same) {
      co_return Error{ErrorKind::kInternal,
                      "this answer used a restored snapshot that differs from what a cold run "
                      "computes; the snapshot was dropped, send the request again"};
    }
  }
  request_->trace().mark("finished", {{"tokens", usage.completion_tokens}});
  if (job.request->report.timeline) usage.timeline = request_->trace().marks();
  if (job.request->report.explained && job.model->tokenizer &&
      main.report.reason != protocol::MissReason::kNone) {
    usage.miss_text = text_around(*prompt.tokens, main.report.known_tokens, *job.model->tokenizer);
  }
  Task<bool> sending = reply_run_->send(protocol::Done{usage});
  const bool sent = co_await sending;
  request_->client_gone = request_->client_gone || !sent;
  co_return std::nullopt;
}

// -- ActiveRequests

void ActiveRequests::add(Entry entry) {
  const std::lock_guard lock(mutex_);
  if (requests_.size() >= prune_at_) {
    std::erase_if(requests_, [](const auto& one) { return one.request.stopped(); });
    prune_at_ = std::max<std::size_t>(64, requests_.size() * 2);
  }
  requests_.push_back(std::move(entry));
}

void ActiveRequests::tell_all(const ModelLost& lost) {
  const std::lock_guard lock(mutex_);
  for (const Entry& one : requests_) {
    if (!one.request.stopped()) one.request.tell(lost);
  }
}

bool ActiveRequests::end_reasoning(const std::string& reply_id, const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  bool found = false;
  for (const Entry& one : requests_) {
    if (reply_id.empty() || one.reply_id != reply_id || one.tenant != tenant) continue;
    if (one.meter->ended.load(std::memory_order_relaxed) || one.request.stopped()) continue;
    one.request.tell(EndReasoning{});
    found = true;
  }
  return found;
}

std::size_t ActiveRequests::size() {
  const std::lock_guard lock(mutex_);
  std::erase_if(requests_, [](const auto& one) { return one.request.stopped(); });
  return requests_.size();
}

std::vector<protocol::RunningRequest> ActiveRequests::running() const {
  const std::lock_guard lock(mutex_);
  std::vector<protocol::RunningRequest> running;
  for (const Entry& one : requests_) {
    const RequestMeter& meter = *one.meter;
    if (meter.ended.load(std::memory_order_relaxed) || one.request.stopped()) continue;
    running.push_back({.number = meter.number,
                       .model = meter.model,
                       .prompt_tokens = meter.prompt_tokens.load(std::memory_order_relaxed),
                       .reused_tokens = meter.reused_tokens.load(std::memory_order_relaxed),
                       .reply_tokens = meter.reply_tokens.load(std::memory_order_relaxed),
                       .max_reply_tokens = meter.max_reply_tokens.load(std::memory_order_relaxed)});
  }
  return running;
}

}  // namespace reprise::actors
