#include "protocol/http/generation.h"

#include <algorithm>
#include <chrono>

#include "protocol/http/prompt_merge.h"
#include "protocol/http/refusals.h"
#include "protocol/sse.h"
#include "runtime/wait.h"

namespace reprise::protocol {

using runtime::ErrorCode;
using runtime::Result;
using runtime::Task;
using runtime::TimePoint;

namespace {

constexpr std::size_t kTailBytes = 512;  // of a prompt, to see what the template has opened

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A key's own is what its requests have where they ask for none, and the highest that they get.
Priority priority_for(const Tenant& tenant, std::optional<Priority> asked) {
  const Priority highest =
      tenant.priority.value_or(tenant.name.empty() ? Priority::kHigh : Priority::kNormal);
  return std::min(highest, asked.value_or(tenant.priority.value_or(Priority::kNormal)));
}

}  // namespace

Generation::Generation(Exchange& exchange, const Tenant& tenant)
    : exchange_(exchange), context_(exchange.context()), tenant_(tenant) {}

Generation::~Generation() {
  if (counted_ == 0) return;
  context_.generations -= counted_;
  context_.metrics.generations_changed(-static_cast<int>(counted_));
  context_.meter.leave(tenant_, counted_);
  context_.meter.pay(tenant_, account_.tokens(), runtime::Clock::now());
}

std::optional<ApiError> Generation::enter() {
  const std::uint64_t wanted = std::uint64_t{request_.reply.prompts} * request_.generate.n;
  const std::uint32_t most = context_.options.requests;
  if (wanted > most) return never_fits(wanted, most);
  const auto count = static_cast<std::uint32_t>(wanted);
  if (tenant_.requests > 0 && count > tenant_.requests) return never_fits(count, tenant_.requests);
  if (count > most - context_.generations) return too_many_requests(most);
  if (const auto over = context_.meter.enter(tenant_, count, runtime::Clock::now())) {
    return over_limit(*over, tenant_);
  }
  counted_ = count;
  account_.expect_prompts(request_.reply.prompts);
  context_.generations += counted_;
  context_.metrics.generations_changed(static_cast<int>(counted_));
  return std::nullopt;
}

Task<bool> Generation::run() {
  const ApiKind kind = exchange_.route() == Route::kChat ? ApiKind::kChat : ApiKind::kCompletion;
  std::optional<ApiError> refused;
  if (context_.generations >= context_.options.requests) {
    refused = too_many_requests(context_.options.requests);
  } else {
    auto parsing = context_.bodies.parse(exchange_.route(), std::move(exchange_.request().body),
                                         exchange_.wire().gone());
    std::optional<ParsedBody> parsed = co_await parsing;
    if (!parsed) {
      auto giving_up = give_up();
      const bool goes_on = co_await giving_up;
      co_return goes_on;
    }
    if (auto* request = std::get_if<ApiRequest>(&*parsed)) {
      request_ = std::move(*request);
      refused = enter();
    } else {
      refused = std::get<ApiError>(std::move(*parsed));
    }
  }
  exchange_.drop_body();
  if (refused) {
    auto refusing = exchange_.refuse(std::move(*refused));
    const bool sent = co_await refusing;
    co_return sent;
  }

  request_.generate.id = exchange_.id();
  request_.generate.name_space = name_space_of(tenant_.cache_owner, request_.cache_salt);
  request_.generate.tenant = tenant_.name;
  request_.generate.tenant_share = tenant_.state_share;
  request_.generate.priority = priority_for(tenant_, request_.priority);
  exchange_.record().stream = request_.reply.stream;
  exchange_.record().model = request_.generate.model;

  if (kind == ApiKind::kChat) {
    const ToolChoice::Mode mode = request_.reply.tool_choice.mode;
    format_ = context_.format_of(request_.generate.model);
    parser_.tools = std::get<ChatPrompt>(request_.generate.prompt).tools;
    parser_.parse_tools = mode != ToolChoice::Mode::kNone;
    parser_.id_seed = context_.new_id();
    if (mode == ToolChoice::Mode::kRequired || mode == ToolChoice::Mode::kNamed) {
      auto forcing = force_call();
      std::optional<ApiError> impossible = co_await forcing;
      if (impossible) {
        auto refusing = exchange_.refuse(std::move(*impossible));
        const bool sent = co_await refusing;
        co_return sent;
      }
    }
  }

  events_ = generate();
  auto answering = request_.reply.stream ? run_stream() : run_whole();
  const bool goes_on = co_await answering;
  events_.cancel();
  co_return goes_on;
}

Task<std::optional<ApiError>> Generation::force_call() {
  auto& chat = std::get<ChatPrompt>(request_.generate.prompt);
  auto asking = context_.service.render({.model = request_.generate.model, .chat = chat});
  Result<Answer<Rendered>> answer = co_await asking;
  if (!answer.ok()) co_return to_api_error(answer.error());
  if (const auto* error = std::get_if<ServiceError>(&*answer)) co_return to_api_error(*error);
  const std::string& prompt = std::get<Rendered>(*answer).prompt;
  const std::string tail = prompt.size() > kTailBytes ? prompt.substr(prompt.size() - kTailBytes) : prompt;
  std::optional<std::string> opening = tool_opening(format_, request_.reply.tool_choice.name, tail);
  if (!opening) {
    co_return ApiError{.message = "tool_choice: this model's replies cannot be made to be a tool call",
                       .code = "unsupported_parameter",
                       .param = "tool_choice"};
  }
  chat.reply_opening = *opening;
  parser_.reply_opening = std::move(*opening);
  co_return std::nullopt;
}

runtime::StreamReader<Event> Generation::generate() {
  if (request_.further_prompts.empty()) return context_.service.generate(std::move(request_.generate));
  std::vector<runtime::StreamReader<Event>> replies;
  replies.push_back(context_.service.generate(request_.generate));
  for (Prompt& prompt : request_.further_prompts) {
    request_.generate.prompt = std::move(prompt);
    replies.push_back(context_.service.generate(request_.generate));
  }
  auto [writer, reader] = runtime::make_stream<Event>(kEventWindow);
  context_.system.spawn<PromptMerge>({.placement = runtime::Placement::on(context_.home)}, std::move(replies),
                                     request_.reply.n, std::move(writer));
  return std::move(reader);
}

ReplyHead Generation::head(const Admitted& admitted) const {
  const bool chat = request_.reply.kind == ApiKind::kChat;
  return {.id = (chat ? "chatcmpl-" : "cmpl-") + context_.new_id(),
          .created = seconds_since_1970(),
          .model = admitted.model};
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
      goes_on = take_streamed(*event);
      // A window's worth at most: those that make no text would otherwise keep the loop for as long as they
      // come.
      for (std::uint32_t i = 1; i < kEventWindow && goes_on && out_.size() < context_.options.sse_batch_bytes;
           ++i) {
        std::optional<Result<Event>> next = events_.try_next();
        if (!next || !next->ok()) break;  // an error is seen again by next()
        goes_on = take_streamed(**next);
      }
    } else if (event.error().code == ErrorCode::kDeadline) {
      if (!exchange_.stream_open()) exchange_.open_stream();
      out_ += kSseKeepAlive;
    } else if (event.error().code == ErrorCode::kCancelled) {
      auto giving_up = give_up();
      goes_on = co_await giving_up;
      co_return goes_on;
    } else {
      fail_stream(broken_off(event.error()));
      goes_on = false;
    }
    if (failure_ && !exchange_.stream_open()) {
      auto refusing = exchange_.refuse(std::move(*failure_));
      const bool sent = co_await refusing;
      co_return sent;
    }
    if (!exchange_.stream_open()) continue;
    if (goes_on && out_.empty() && !exchange_.head_unsent()) {
      // Events that made no text (a call's arguments, what is held back) are no sign of life to the client.
      if (runtime::Clock::now() < keep_alive_at) continue;
      out_ += kSseKeepAlive;
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

bool Generation::take_streamed(Event& event) {
  account_.see(event);
  if (const auto* admitted = std::get_if<Admitted>(&event)) {
    exchange_.record().model = admitted->model;
    streamed_.emplace(head(*admitted), request_.reply, std::move(format_), std::move(parser_));
    if (!exchange_.stream_open()) exchange_.open_stream();
  } else if (const auto* failed = std::get_if<Failed>(&event)) {
    fail_stream(to_api_error(failed->error));
    return false;
  } else {
    REPRISE_CHECK(streamed_.has_value(), "the engine answered a request before it admitted it");
    if (const auto* started = std::get_if<Started>(&event)) {
      streamed_->started(*started, out_);
    } else if (auto* delta = std::get_if<Delta>(&event)) {
      streamed_->delta(std::move(*delta), out_);
    } else if (const auto* finished = std::get_if<Finished>(&event)) {
      streamed_->finished(*finished, out_);
    } else if (const auto* done = std::get_if<Done>(&event)) {
      streamed_->done(*done, out_);
      exchange_.record().usage = done->usage;
      context_.metrics.reply_done(done->usage);
      return false;
    }
  }
  return true;
}

void Generation::fail_stream(const ApiError& error) {
  exchange_.record().outcome = error.code;
  if (exchange_.stream_open()) {
    append_sse_data(out_, error.envelope().dump());
    out_ += kSseDone;
  } else {
    failure_ = error;
  }
}

// -- in one piece

Task<bool> Generation::run_whole() {
  bool goes_on = true;
  while (goes_on) {
    auto reading = events_.next(TimePoint::max(), exchange_.wire().gone());
    Result<Event> event = co_await reading;
    if (event.ok()) {
      goes_on = take_whole(*event);
      for (std::uint32_t i = 1; i < kEventWindow && goes_on; ++i) {  // what waits already
        std::optional<Result<Event>> next = events_.try_next();
        if (!next || !next->ok()) break;  // an error is seen again by next()
        goes_on = take_whole(**next);
      }
    } else if (event.error().code == ErrorCode::kCancelled) {
      auto giving_up = give_up();
      goes_on = co_await giving_up;
      co_return goes_on;
    } else {
      failure_ = broken_off(event.error());
      goes_on = false;
    }
  }
  auto responding =
      failure_ ? exchange_.refuse(std::move(*failure_)) : exchange_.respond(json_response(std::move(body_)));
  const bool sent = co_await responding;
  co_return sent;
}

bool Generation::take_whole(Event& event) {
  account_.see(event);
  if (const auto* admitted = std::get_if<Admitted>(&event)) {
    exchange_.record().model = admitted->model;
    whole_.emplace(head(*admitted), request_.reply, std::move(format_), std::move(parser_));
  } else if (const auto* failed = std::get_if<Failed>(&event)) {
    failure_ = to_api_error(failed->error);
    return false;
  } else {
    REPRISE_CHECK(whole_.has_value(), "the engine answered a request before it admitted it");
    if (const auto* started = std::get_if<Started>(&event)) {
      whole_->started(*started);
    } else if (auto* delta = std::get_if<Delta>(&event)) {
      whole_->delta(std::move(*delta));
    } else if (const auto* finished = std::get_if<Finished>(&event)) {
      whole_->finished(*finished);
    } else if (const auto* done = std::get_if<Done>(&event)) {
      body_ = whole_->done(*done);
      exchange_.record().usage = done->usage;
      context_.metrics.reply_done(done->usage);
      return false;
    }
  }
  return true;
}

// -- what goes wrong

ApiError Generation::broken_off(const runtime::Error& error) const {
  return {.status = 500, .message = "the engine broke off: " + error.describe(), .code = "internal_error"};
}

Task<bool> Generation::give_up() {
  events_.cancel();  // at once: the sequence is freed within a step
  if (exchange_.wire().client_closed() || !context_.draining) {
    exchange_.record().outcome = "client_left";
    if (!exchange_.answered()) exchange_.record().status = kClientLeft;
    context_.metrics.client_left();
    co_return false;
  }
  const ApiError error = shutting_down();
  exchange_.close_after();
  exchange_.record().outcome = error.code;
  if (exchange_.stream_open()) {
    out_.clear();
    append_sse_data(out_, error.envelope().dump());
    out_ += kSseDone;
    auto sending = exchange_.send(std::move(out_), Exchange::Last::kYes);
    const bool sent = co_await sending;
    co_return sent;
  }
  auto refusing = exchange_.refuse(error);
  const bool sent = co_await refusing;
  co_return sent;
}

}  // namespace reprise::protocol
