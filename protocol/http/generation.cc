#include "protocol/http/generation.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/chat/chat_format.h"
#include "protocol/chat/chat_request.h"
#include "protocol/http/gate.h"
#include "protocol/http/server_context.h"
#include "protocol/service.h"
#include "runtime/actor.h"
#include "runtime/cancel.h"
#include "runtime/event.h"
#include "runtime/wait.h"

namespace reprise::protocol {
namespace {

using runtime::ErrorCode;
using runtime::Result;
using runtime::StreamReader;
using runtime::StreamWriter;
using runtime::Task;
using runtime::TimePoint;

// -- several prompts

/// Merges the usage of several prompts: token counts are summed; times are the slowest prompt's, except the
/// first token's; the cache miss reported is that of the prompt with most prefilled tokens.
Usage sum_of(const std::vector<std::optional<Usage>>& accounts) {
  Usage sum = accounts.front().value();
  std::uint32_t max_prefilled = sum.cache.prefilled_tokens;
  for (std::size_t i = 1; i < accounts.size(); ++i) {
    const Usage& one = accounts[i].value();
    sum.prompt_tokens += one.prompt_tokens;
    sum.completion_tokens += one.completion_tokens;
    sum.cache.prompt_tokens += one.cache.prompt_tokens;
    sum.cache.restored_tokens += one.cache.restored_tokens;
    sum.cache.prefilled_tokens += one.cache.prefilled_tokens;
    sum.cache.lost_tokens += one.cache.lost_tokens;
    sum.cache.waited_for_other = sum.cache.waited_for_other || one.cache.waited_for_other;
    if (one.cache.prefilled_tokens > max_prefilled) {
      max_prefilled = one.cache.prefilled_tokens;
      sum.cache.reason = one.cache.reason;
      sum.cache.known_tokens = one.cache.known_tokens;
      sum.cache.behind_tokens = one.cache.behind_tokens;
      sum.cache.origin = one.cache.origin;
      sum.cache.tier = one.cache.tier;
      sum.miss_text = one.miss_text;
    }
    if (sum.reasoning_ended_by == ReasoningEnd::kModel) sum.reasoning_ended_by = one.reasoning_ended_by;
    sum.recognized_calls += one.recognized_calls;
    if (one.kv && !sum.kv) sum.kv.emplace();
    if (one.kv) {
      sum.kv->tokens += one.kv->tokens;
      sum.kv->bytes += one.kv->bytes;
      sum.kv->full_bytes += one.kv->full_bytes;
    }
    sum.timing.queued_ms = std::max(sum.timing.queued_ms, one.timing.queued_ms);
    sum.timing.prefill_ms = std::max(sum.timing.prefill_ms, one.timing.prefill_ms);
    sum.timing.first_token_ms = std::min(sum.timing.first_token_ms, one.timing.first_token_ms);
    sum.timing.decode_ms = std::max(sum.timing.decode_ms, one.timing.decode_ms);
    if (one.timeline.size() > sum.timeline.size())
      sum.timeline = one.timeline;  // the last to end has all marks
  }
  return sum;
}

/// Merges the replies to several prompts of one completion, each a separate request to the engine, into one
/// stream of events, in order of arrival. An actor on the reader's executor.
///
/// Choice k of prompt p becomes choice p * n + k. Admitted is sent once, with the first; Started once per
/// prompt, with its index; Done once, at the end, with the merged usage. The first Failed ends the stream.
/// Dropping the merged stream drops all replies and thus cancels the requests.
///
/// Bounds: at most one event per prompt is buffered, so a slow reader pauses all prompts.
class PromptMerge : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<>;
  static constexpr const char* kName = "prompt merge";

  /// `n`: choices per prompt.
  PromptMerge(std::vector<StreamReader<Event>> replies, std::uint32_t n, StreamWriter<Event> merged);

  void on_start();

 private:
  struct Arrival {
    std::uint32_t prompt;
    Result<Event> event;
  };

  Task<void> read(std::uint32_t prompt);
  Task<void> write();
  /// Returns the event for the merged stream, or nullopt if it was sent already or must wait.
  std::optional<Event> translate(std::uint32_t prompt, Event event);

  std::vector<StreamReader<Event>> replies_;
  const std::uint32_t n_;
  StreamWriter<Event> merged_;
  std::deque<Arrival> arrived_;
  std::optional<runtime::CancelSource> arrival_wanted_;  // ends the wait for the reader's end
  std::vector<runtime::Event> taken_;                    // by prompt; signaled when its event leaves arrived_
  std::vector<std::optional<Usage>> accounts_;
  bool admitted_ = false;
};

PromptMerge::PromptMerge(std::vector<StreamReader<Event>> replies, std::uint32_t n,
                         StreamWriter<Event> merged)
    : replies_(std::move(replies)),
      n_(n),
      merged_(std::move(merged)),
      taken_(replies_.size()),
      accounts_(replies_.size()) {}

void PromptMerge::on_start() {
  for (std::uint32_t i = 0; i < replies_.size(); ++i) launch(read(i));
  launch(write());
}

Task<void> PromptMerge::read(std::uint32_t prompt) {
  bool goes_on = true;
  while (goes_on) {
    auto reading = replies_[prompt].next();
    Result<Event> event = co_await reading;
    goes_on = event.ok() && !std::holds_alternative<Done>(*event);
    arrived_.push_back({prompt, std::move(event)});
    if (arrival_wanted_) arrival_wanted_->cancel();
    auto waiting = taken_[prompt].wait();
    const Result<void> taken = co_await waiting;
  }
}

Task<void> PromptMerge::write() {
  bool goes_on = true;
  while (goes_on) {
    if (arrived_.empty()) {
      arrival_wanted_.emplace();
      auto waiting = merged_.reader_end(arrival_wanted_->token());
      const Result<void> reader_gone = co_await waiting;
      arrival_wanted_.reset();
      goes_on = !reader_gone.ok();
      continue;
    }
    Arrival arrival = std::move(arrived_.front());
    arrived_.pop_front();
    taken_[arrival.prompt].signal();
    if (!arrival.event.ok()) {
      merged_.fail(arrival.event.error());
      break;
    }
    std::optional<Event> event = translate(arrival.prompt, std::move(*arrival.event));
    if (!event) continue;
    const bool last = std::holds_alternative<Done>(*event) || std::holds_alternative<Failed>(*event);
    auto writing = merged_.write(std::move(*event));
    const Result<void> written = co_await writing;
    goes_on = written.ok() && !last;
  }
  merged_.close();
  stop();
}

std::optional<Event> PromptMerge::translate(std::uint32_t prompt, Event event) {
  if (std::holds_alternative<Admitted>(event)) {
    if (std::exchange(admitted_, true)) return std::nullopt;
  } else if (auto* started = std::get_if<Started>(&event)) {
    started->prompt_index = prompt;
  } else if (auto* progress = std::get_if<Progress>(&event)) {
    progress->prompt_index = prompt;
  } else if (auto* delta = std::get_if<Delta>(&event)) {
    delta->choice += prompt * n_;
  } else if (auto* finished = std::get_if<Finished>(&event)) {
    finished->choice += prompt * n_;
  } else if (auto* embedded = std::get_if<Embedded>(&event)) {
    embedded->prompt_index = prompt;
  } else if (auto* failed = std::get_if<Failed>(&event)) {
    if (failed->error.param == "prompt") failed->error.param = item_of("prompt", prompt);
  } else if (const auto* done = std::get_if<Done>(&event)) {
    accounts_[prompt] = done->usage;
    const bool all = std::all_of(accounts_.begin(), accounts_.end(), [](const auto& one) { return !!one; });
    if (!all) return std::nullopt;
    return Done{sum_of(accounts_)};
  }
  return event;
}

// -- text

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A key's priority is both the default and the maximum for its requests.
Priority priority_for(const Tenant& tenant, std::optional<Priority> asked) {
  const Priority highest =
      tenant.priority.value_or(tenant.name.empty() ? Priority::kHigh : Priority::kNormal);
  return std::min(highest, asked.value_or(tenant.priority.value_or(Priority::kNormal)));
}

/// Returns the session name from headers of clients that cannot set one in the body; ignores longer names.
std::string_view session_of(const HttpRequest& request, std::size_t max_bytes) {
  for (const char* name : {"x-session-affinity", "x-session-id", "x-multi-turn-session-id"}) {
    const std::string_view session = request.header(name);
    if (!session.empty() && session.size() <= max_bytes) return session;
  }
  return {};
}

/// One request for text, let in by the gate: converts the engine's events to the API's reply.
///
/// The event stream is read while the client is connected; dropping it, at any point, frees what the request
/// holds. A slow client delays the write, thereby the reading of events and, through the stream's credit,
/// only this request's work in the engine.
///
/// The head of a stream is sent when the request is admitted, or with the first keep-alive if that comes
/// earlier. An error before that is a plain response with its status; a later one is sent in the stream.
class Generation {
 public:
  /// `tenant` must outlive this.
  Generation(Exchange& exchange, const Tenant& tenant, std::unique_ptr<GenerationCall> call);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  /// Returns false if the connection must be closed.
  Task<bool> run();

 private:
  /// Ends the count of the request. Runs before the last bytes are written, because a client that has its
  /// reply may send the next request at once. Later calls do nothing.
  void leave();
  /// Fills in the fields of the engine's request that the body does not set.
  void complete_request();
  /// Sets the model's name if the server has only one model and accepts any name for it; looks up its chat
  /// format.
  void find_model();
  /// Reports the reasoning budget field as unknown if the model does not reason.
  void note_idle_budget();

  /// Prepares a chat (protocol/chat/chat_request.h); the engine renders it if a call is forced.
  Task<std::optional<Error>> prepare(ReplyContext& context);
  /// Returns the chat's prompt.
  Task<Outcome<std::string, Error>> rendered();
  StreamReader<Event> generate();
  Task<bool> run_stream();
  Task<bool> run_whole();

  /// Appends one event to `out_`; returns false after the last.
  bool take(Event& event);
  void fail(Error error);
  Error broken_off(const runtime::Error& error) const;
  /// Ends the request when the client has left or the server stops. Returns false if the connection must be
  /// closed.
  Task<bool> give_up();

  Exchange& exchange_;
  ServerContext& context_;
  const Tenant& tenant_;
  const std::unique_ptr<GenerationCall> call_;
  ApiRequest& request_;
  ChatFormatPtr chat_;  // the requested model's; null: no chat, or unknown model
  WorkReservation reservation_;
  StreamReader<Event> events_;

  std::unique_ptr<Reply> reply_;
  StreamedReply* streamed_ = nullptr;  // reply_ as a stream; null: not streamed
  bool admitted_ = false;

  std::string out_;  // unwritten events of a stream, or the body
  std::optional<Error> failure_;
};

Generation::Generation(Exchange& exchange, const Tenant& tenant, std::unique_ptr<GenerationCall> call)
    : exchange_(exchange),
      context_(exchange.context()),
      tenant_(tenant),
      call_(std::move(call)),
      request_(call_->request),
      reservation_(context_, tenant) {}

Generation::~Generation() {
  leave();
}

void Generation::leave() {
  reservation_.leave();
  RequestRecord& record = exchange_.record();
  if (admitted_ && !record.usage) {
    record.usage = reservation_.account().heard();
    record.broken_off = true;
  }
}

void Generation::complete_request() {
  GenerateRequest& generate = request_.generate;
  find_model();
  if (generate.cache.conversation.empty())
    generate.cache.conversation = session_of(exchange_.request(), context_.options.request.label_bytes);
  generate.cache.name_space = name_space_of(tenant_.cache_owner, request_.cache_salt);
  generate.origin.id = exchange_.id();
  generate.origin.tenant = tenant_.name;
  generate.origin.tenant_share = tenant_.state_share;
  generate.origin.priority = priority_for(tenant_, request_.priority);
  generate.origin.text_time = reservation_.text_time();
  generate.origin.trace = exchange_.trace();
  note_idle_budget();
  exchange_.record().stream = request_.stream;
  exchange_.record().unknown_fields = request_.unknown_fields;
  exchange_.record().model = generate.model;
}

void Generation::find_model() {
  std::string& name = request_.generate.model;
  const std::vector<ModelCard> cards = context_.service.models();
  if (request_.any_model) name = nearest_model(cards, name);
  const ModelCard* card = card_named(cards, name);
  if (card != nullptr) chat_ = card->chat;
}

void Generation::note_idle_budget() {
  if (request_.generate.rules.reasoning_budget.value_or(-1) < 0) return;
  if (chat_ != nullptr && chat_->reply_format().has_reasoning()) return;
  request_.unknown_fields.push_back(request_.reasoning_budget_field);
}

Task<bool> Generation::run() {
  const auto prompts = static_cast<std::uint32_t>(1 + request_.further_prompts.size());
  std::optional<Error> refused = reservation_.enter_replies(prompts, request_.generate.n);
  ReplyContext context{.id = new_id()};
  if (!refused) {
    complete_request();
    request_.generate.origin.reply_id = context.id;
    auto preparing = prepare(context);
    refused = co_await preparing;
  }
  if (refused) {
    leave();
    auto refusing = exchange_.refuse(std::move(*refused));
    const bool sent = co_await refusing;
    co_return sent;
  }
  if (request_.stream) {
    std::unique_ptr<StreamedReply> reply = call_->stream(std::move(context));
    streamed_ = reply.get();
    reply_ = std::move(reply);
  } else {
    reply_ = call_->whole(std::move(context));
  }
  events_ = generate();
  auto answering = request_.stream ? run_stream() : run_whole();
  const bool goes_on = co_await answering;
  events_.cancel();
  co_return goes_on;
}

Task<std::optional<Error>> Generation::prepare(ReplyContext& context) {
  const auto* chat = std::get_if<ChatPrompt>(&request_.generate.prompt);
  if (chat == nullptr) co_return std::nullopt;
  std::string prompt;
  if (request_.tool_choice.forces_call() && chat->reply_opening.empty()) {
    auto rendering = rendered();
    Outcome<std::string, Error> text = co_await rendering;
    if (!text.ok()) co_return text.error();
    prompt = std::move(*text);
  }
  Outcome<ReplyParserOptions, Error> parser =
      prepare_chat(chat_.get(), request_.tool_choice, prompt, request_.generate);
  if (!parser.ok()) co_return parser.error();
  context.chat = chat_;
  context.parser = std::move(*parser);
  context.parser.one_call = request_.one_call;
  co_return std::nullopt;
}

Task<Outcome<std::string, Error>> Generation::rendered() {
  RenderRequest render{.model = request_.generate.model,
                       .chat = std::get<ChatPrompt>(request_.generate.prompt),
                       .caller = reservation_.caller()};
  auto asking = context_.service.render(std::move(render));
  Result<Answer<Rendered>> answer = co_await asking;
  if (!answer.ok()) co_return unanswered_error(answer.error());
  if (const auto* error = std::get_if<Error>(&*answer)) co_return *error;
  co_return std::move(std::get<Rendered>(*answer).prompt);
}

StreamReader<Event> Generation::generate() {
  if (request_.further_prompts.empty()) return context_.service.generate(std::move(request_.generate));
  std::vector<StreamReader<Event>> replies;
  const std::uint32_t n = request_.generate.n;
  replies.push_back(context_.service.generate(request_.generate));
  for (Prompt& prompt : request_.further_prompts) {
    request_.generate.prompt = std::move(prompt);
    replies.push_back(context_.service.generate(request_.generate));
  }
  auto [writer, reader] = runtime::make_stream<Event>(kEventWindow);
  context_.system.spawn<PromptMerge>({.placement = runtime::Placement::on(context_.executor)},
                                     std::move(replies), n, std::move(writer));
  return std::move(reader);
}

// -- as a stream

Task<bool> Generation::run_stream() {
  const auto interval = context_.options.sse_keep_alive;
  TimePoint keep_alive_at = runtime::deadline_after(interval);
  bool goes_on = true;
  while (goes_on) {
    auto reading = events_.next(keep_alive_at, exchange_.wire().gone());
    Result<Event> event = co_await reading;
    if (event.ok()) {
      goes_on = take(*event);
      // At most one window of events, so that events without text cannot occupy the loop.
      for (std::uint32_t i = 1; i < kEventWindow && goes_on && out_.size() < context_.options.sse_batch_bytes;
           ++i) {
        std::optional<Result<Event>> next = events_.try_next();
        if (!next || !next->ok()) break;  // next() returns the error again
        goes_on = take(**next);
      }
    } else if (event.error().code == ErrorCode::kDeadline) {
      if (!exchange_.stream_open()) exchange_.open_stream(streamed_->content_type());
      streamed_->keep_alive(out_);
    } else if (event.error().code == ErrorCode::kCanceled) {
      auto giving_up = give_up();
      goes_on = co_await giving_up;
      co_return goes_on;
    } else {
      fail(broken_off(event.error()));
      goes_on = false;
    }
    if (!goes_on) leave();
    if (failure_) {
      auto refusing = exchange_.refuse(std::move(*failure_));
      const bool sent = co_await refusing;
      co_return sent;
    }
    if (!exchange_.stream_open()) continue;
    if (goes_on && out_.empty() && !exchange_.head_unsent()) {
      // Events without text (a call's arguments, held-back text) are not visible to the client.
      if (runtime::Clock::now() < keep_alive_at) continue;
      streamed_->keep_alive(out_);
    }
    auto sending = exchange_.send(std::move(out_), goes_on ? Exchange::Last::kNo : Exchange::Last::kYes);
    out_.clear();
    const bool sent = co_await sending;
    if (!sent) {
      auto giving_up = give_up();
      goes_on = co_await giving_up;
      co_return goes_on;
    }
    keep_alive_at = runtime::deadline_after(interval);
  }
  co_return true;
}

// -- in one piece

Task<bool> Generation::run_whole() {
  bool goes_on = true;
  while (goes_on) {
    auto reading = events_.next(TimePoint::max(), exchange_.wire().gone());
    Result<Event> event = co_await reading;
    if (event.ok()) {
      goes_on = take(*event);
      for (std::uint32_t i = 1; i < kEventWindow && goes_on; ++i) {
        std::optional<Result<Event>> next = events_.try_next();
        if (!next || !next->ok()) break;  // next() returns the error again
        goes_on = take(**next);
      }
    } else if (event.error().code == ErrorCode::kCanceled) {
      auto giving_up = give_up();
      goes_on = co_await giving_up;
      co_return goes_on;
    } else {
      fail(broken_off(event.error()));
      goes_on = false;
    }
  }
  leave();
  auto responding =
      failure_ ? exchange_.refuse(std::move(*failure_)) : exchange_.respond(json_response(std::move(out_)));
  const bool sent = co_await responding;
  co_return sent;
}

bool Generation::take(Event& event) {
  reservation_.account().see(event);
  if (const auto* failed = std::get_if<Failed>(&event)) {
    fail(failed->error);
    return false;
  }
  if (const auto* admitted = std::get_if<Admitted>(&event)) {
    admitted_ = true;
    exchange_.record().model = admitted->model;
    reply_->admitted(*admitted, seconds_since_1970(), out_);
    if (streamed_ != nullptr && !exchange_.stream_open()) exchange_.open_stream(streamed_->content_type());
    return true;
  }
  REPRISE_CHECK(admitted_, "the engine answered a request before it admitted it");
  if (const auto* started = std::get_if<Started>(&event)) {
    reply_->started(*started, out_);
  } else if (const auto* progress = std::get_if<Progress>(&event)) {
    reply_->progress(*progress, out_);
  } else if (auto* delta = std::get_if<Delta>(&event)) {
    reply_->delta(std::move(*delta), out_);
  } else if (auto* embedded = std::get_if<Embedded>(&event)) {
    reply_->embedded(std::move(*embedded), out_);
  } else if (const auto* finished = std::get_if<Finished>(&event)) {
    reply_->finished(*finished, out_);
  } else if (auto* done = std::get_if<Done>(&event)) {
    done->usage.unknown_fields = std::move(request_.unknown_fields);
    reply_->done(*done, out_);
    exchange_.record().usage = done->usage;
    context_.metrics.reply_done(exchange_.record().model, reservation_.replies(), done->usage);
    return false;
  }
  return true;
}

// -- failures

void Generation::fail(Error error) {
  exchange_.record().outcome = shown(error).code;
  if (exchange_.stream_open()) {
    streamed_->failed(error, out_);
  } else {
    failure_ = std::move(error);
  }
}

Error Generation::broken_off(const runtime::Error& error) const {
  return {ErrorKind::kInternal, "the engine ended the reply early: " + error.describe()};
}

Task<bool> Generation::give_up() {
  events_.cancel();  // at once: the sequence is freed within a step
  leave();
  if (!exchange_.stream_open() || exchange_.is_abandoned()) {
    auto giving_up = exchange_.give_up();
    const bool goes_on = co_await giving_up;
    co_return goes_on;
  }
  exchange_.close_after();
  out_.clear();
  fail(shutting_down());
  auto sending = exchange_.send(std::move(out_), Exchange::Last::kYes);
  const bool sent = co_await sending;
  co_return sent;
}

// -- questions

Task<bool> answer_question(Exchange& exchange, const Tenant& tenant, std::unique_ptr<Question> question) {
  WorkReservation reservation(exchange.context(), tenant);
  if (question->is_text_work()) {
    if (std::optional<Error> over = reservation.enter_text()) {
      auto refusing = exchange.refuse(std::move(*over));
      const bool refused = co_await refusing;
      co_return refused;
    }
    question->caller = reservation.caller();
  }
  auto answering = question->answer(exchange.context().service);
  Question::Answered answer = co_await answering;
  exchange.record().unknown_fields = question->unknown_fields;
  if (answer.ok()) append_unknown_fields(question->unknown_fields, *answer);
  reservation.leave();  // before the answer is written: the client may send its next request at once
  auto responding =
      answer.ok() ? exchange.respond(json_response(std::move(*answer))) : exchange.refuse(answer.error());
  const bool sent = co_await responding;
  co_return sent;
}

/// Returns the cache salt from ?cache_salt= or X-Cache-Salt, for requests without a body.
std::string salt_beside_body(const HttpRequest& request) {
  if (auto salt = query_value(request.query, "cache_salt")) return std::move(*salt);
  return std::string(request.header("x-cache-salt"));
}

}  // namespace

Task<bool> answer_call(Exchange& exchange, const Tenant& tenant) {
  ServerContext& context = exchange.context();
  const Route& route = exchange.route();
  std::optional<ParsedCall> parsed;
  std::optional<Error> full;
  if (route.generates) full = WorkReservation::full(context);
  if (full) {
    parsed = std::move(*full);
  } else {
    auto parsing = context.bodies.parse({.endpoint = route.endpoint,
                                         .body = std::move(exchange.request().body),
                                         .path_end = route.path_end(exchange.request().path),
                                         .query = exchange.request().query,
                                         .cache_salt = salt_beside_body(exchange.request()),
                                         .tenant = tenant.name,
                                         .deletes = exchange.request().method == "DELETE"},
                                        exchange.wire().gone());
    parsed = co_await parsing;
  }
  bool goes_on = false;
  if (!parsed) {
    auto giving_up = exchange.give_up();
    goes_on = co_await giving_up;
    co_return goes_on;
  }
  exchange.trace().mark("parsed");
  exchange.drop_body();
  if (auto* error = std::get_if<Error>(&*parsed)) {
    auto refusing = exchange.refuse(std::move(*error));
    goes_on = co_await refusing;
  } else if (auto* question = std::get_if<std::unique_ptr<Question>>(&*parsed)) {
    auto answering = answer_question(exchange, tenant, std::move(*question));
    goes_on = co_await answering;
  } else {
    Generation generation(exchange, tenant, std::get<std::unique_ptr<GenerationCall>>(std::move(*parsed)));
    auto running = generation.run();
    goes_on = co_await running;
  }
  co_return goes_on;
}

}  // namespace reprise::protocol
