#include "protocol/http/generation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "protocol/chat/call_constraint.h"
#include "protocol/http/prompt_merge.h"
#include "protocol/http/refusals.h"
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

/// What clients that cannot change the body name a conversation by; longer names are ignored.
std::string_view session_of(const HttpRequest& request, std::size_t most_bytes) {
  for (const char* name : {"x-session-affinity", "x-session-id", "x-multi-turn-session-id"}) {
    const std::string_view session = request.header(name);
    if (!session.empty() && session.size() <= most_bytes) return session;
  }
  return {};
}

}  // namespace

Generation::Generation(Exchange& exchange, const Tenant& tenant, std::unique_ptr<GenerationCall> call)
    : exchange_(exchange),
      context_(exchange.context()),
      tenant_(tenant),
      call_(std::move(call)),
      request_(call_->request) {}

Generation::~Generation() {
  leave();
}

void Generation::leave() {
  const std::uint32_t counted = std::exchange(counted_, 0);
  if (counted == 0) return;
  context_.generations -= counted;
  context_.metrics.generations_changed(-static_cast<int>(counted));
  context_.meter.leave(tenant_, counted);
  context_.meter.pay(tenant_, account_.tokens() + tokens_of(text_time_), runtime::Clock::now());
  RequestRecord& record = exchange_.record();
  if (admitted_ && !record.usage) {
    record.usage = account_.heard();
    record.broken_off = true;
  }
}

std::optional<ApiError> Generation::enter() {
  const std::size_t prompts = 1 + request_.further_prompts.size();
  const std::uint64_t wanted = std::uint64_t{prompts} * request_.generate.n;
  const std::uint32_t most = context_.options.requests;
  if (wanted > most) return never_fits(wanted, most);
  const auto count = static_cast<std::uint32_t>(wanted);
  if (tenant_.requests > 0 && count > tenant_.requests) return never_fits(count, tenant_.requests);
  if (count > most - context_.generations) return too_many_requests(most);
  if (const auto over = context_.meter.enter(tenant_, count, runtime::Clock::now())) {
    return over_limit(*over, tenant_);
  }
  counted_ = count;
  account_.expect_prompts(static_cast<std::uint32_t>(prompts));
  context_.generations += counted_;
  context_.metrics.generations_changed(static_cast<int>(counted_));
  return std::nullopt;
}

void Generation::complete_request() {
  GenerateRequest& generate = request_.generate;
  if (request_.any_model) generate.model = context_.nearest_model(generate.model);
  generate.id = exchange_.id();
  if (generate.conversation.empty())
    generate.conversation = session_of(exchange_.request(), context_.options.request.label_bytes);
  generate.trace = exchange_.trace();
  generate.name_space = name_space_of(tenant_.cache_owner, request_.cache_salt);
  generate.tenant = tenant_.name;
  generate.text_time = text_time_;
  generate.tenant_share = tenant_.state_share;
  generate.priority = priority_for(tenant_, request_.priority);
  note_idle_budget();
  exchange_.record().stream = request_.stream;
  exchange_.record().unknown_fields = request_.unknown_fields;
  exchange_.record().model = generate.model;
}

void Generation::note_idle_budget() {
  if (request_.generate.reasoning_budget.value_or(-1) < 0) return;
  const ChatFormatPtr chat = context_.chat_of(request_.generate.model);
  if (chat != nullptr && chat->reply_format().has_reasoning()) return;
  request_.unknown_fields.push_back(request_.reasoning_budget_field);
}

Task<bool> Generation::run() {
  std::optional<ApiError> refused = enter();
  ReplyContext context{.id = new_id()};
  if (!refused) {
    complete_request();
    request_.generate.reply_id = context.id;
    auto preparing = prepare_chat(context);
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

Task<std::optional<ApiError>> Generation::prepare_chat(ReplyContext& context) {
  auto* chat = std::get_if<ChatPrompt>(&request_.generate.prompt);
  if (chat == nullptr) co_return std::nullopt;
  const ToolChoice::Mode mode = request_.tool_choice.mode;
  context.chat = context_.chat_of(request_.generate.model);
  context.parser.tools = chat->tools;
  context.parser.parse_tools = mode != ToolChoice::Mode::kNone;
  context.parser.one_call = request_.one_call;
  std::optional<ApiError> impossible;
  if (mode == ToolChoice::Mode::kRequired || mode == ToolChoice::Mode::kNamed) {
    auto forcing = force_call(context);
    impossible = co_await forcing;
  } else if (mode == ToolChoice::Mode::kAuto) {
    impossible = keep_calls(context);
  }
  co_return impossible;
}

Task<std::optional<ApiError>> Generation::force_call(ReplyContext& context) {
  auto& chat = std::get<ChatPrompt>(request_.generate.prompt);
  if (!chat.reply_opening.empty()) {
    co_return ApiError{
        .message = "tool_choice: a reply that continues a message cannot be forced to be a tool call",
        .code = "invalid_value",
        .param = "tool_choice"};
  }
  auto asking = context_.service.render(
      {.model = request_.generate.model, .chat = chat, .caller = {tenant_.name, text_time_}});
  Result<Answer<Rendered>> answer = co_await asking;
  if (!answer.ok()) co_return to_api_error(answer.error());
  if (const auto* error = std::get_if<ServiceError>(&*answer)) co_return to_api_error(*error);
  const std::string& prompt = std::get<Rendered>(*answer).prompt;
  const std::string tail = prompt.size() > kTailBytes ? prompt.substr(prompt.size() - kTailBytes) : prompt;
  std::optional<std::string> opening;
  if (context.chat != nullptr) opening = context.chat->call_opening(request_.tool_choice.name, tail);
  if (!opening) {
    co_return ApiError{.message = "tool_choice: this model's chat template gives no way to force a tool call",
                       .code = "unsupported_parameter",
                       .param = "tool_choice"};
  }
  chat.reply_opening = *opening;
  context.parser.reply_opening = std::move(*opening);
  if (auto calls =
          forced_call(context.chat->reply_format(), chat.tools, request_.tool_choice.name, chat.text_tools)) {
    request_.generate.constraint = {.kind = grammar::Constraint::Kind::kCalls,
                                    .calls = std::move(*calls),
                                    .whitespace = std::move(request_.generate.constraint.whitespace),
                                    .field = "tools"};
  }
  co_return std::nullopt;
}

// Calls that the model is free to make: those of strict tools fit, and beside a constraint there may be calls still.
std::optional<ApiError> Generation::keep_calls(const ReplyContext& context) {
  const auto& chat = std::get<ChatPrompt>(request_.generate.prompt);
  grammar::Constraint& constraint = request_.generate.constraint;
  const bool strict = has_strict_tool(chat.tools, chat.text_tools);
  if (context.chat == nullptr || (!strict && !constraint)) return std::nullopt;
  auto calls = free_calls(context.chat->reply_format(), chat.tools, chat.text_tools);
  if (calls) {
    constraint.calls = std::move(*calls);
    if (!constraint) constraint.kind = grammar::Constraint::Kind::kCalls;
    if (constraint.field.empty()) constraint.field = "tools";
    return std::nullopt;
  }
  if (!strict) return std::nullopt;
  return ApiError{.message =
                      "tools: 'strict' and the formats of custom tools cannot be enforced in this model's "
                      "format of tool calls",
                  .code = "unsupported_parameter",
                  .param = "tools"};
}

runtime::StreamReader<Event> Generation::generate() {
  if (request_.further_prompts.empty()) return context_.service.generate(std::move(request_.generate));
  std::vector<runtime::StreamReader<Event>> replies;
  const std::uint32_t n = request_.generate.n;
  replies.push_back(context_.service.generate(request_.generate));
  for (Prompt& prompt : request_.further_prompts) {
    request_.generate.prompt = std::move(prompt);
    replies.push_back(context_.service.generate(request_.generate));
  }
  auto [writer, reader] = runtime::make_stream<Event>(kEventWindow);
  context_.system.spawn<PromptMerge>({.placement = runtime::Placement::on(context_.home)}, std::move(replies),
                                     n, std::move(writer));
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
      // A window's worth at most: those that make no text would otherwise keep the loop for as long as they
      // come.
      for (std::uint32_t i = 1; i < kEventWindow && goes_on && out_.size() < context_.options.sse_batch_bytes;
           ++i) {
        std::optional<Result<Event>> next = events_.try_next();
        if (!next || !next->ok()) break;  // an error is seen again by next()
        goes_on = take(**next);
      }
    } else if (event.error().code == ErrorCode::kDeadline) {
      if (!exchange_.stream_open()) exchange_.open_stream(streamed_->content_type());
      streamed_->keep_alive(out_);
    } else if (event.error().code == ErrorCode::kCancelled) {
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
      // Events that made no text (a call's arguments, what is held back) are no sign of life to the client.
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
      for (std::uint32_t i = 1; i < kEventWindow && goes_on; ++i) {  // what waits already
        std::optional<Result<Event>> next = events_.try_next();
        if (!next || !next->ok()) break;  // an error is seen again by next()
        goes_on = take(**next);
      }
    } else if (event.error().code == ErrorCode::kCancelled) {
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
  account_.see(event);
  if (const auto* failed = std::get_if<Failed>(&event)) {
    fail(to_api_error(failed->error));
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
    context_.metrics.reply_done(exchange_.record().model, counted_, done->usage);
    return false;
  }
  return true;
}

// -- what goes wrong

void Generation::fail(ApiError error) {
  exchange_.record().outcome = error.code;
  if (exchange_.stream_open()) {
    streamed_->failed(error, out_);
  } else {
    failure_ = std::move(error);
  }
}

ApiError Generation::broken_off(const runtime::Error& error) const {
  return {.status = 500,
          .message = "the engine ended the reply early: " + error.describe(),
          .code = "internal_error"};
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

}  // namespace reprise::protocol
