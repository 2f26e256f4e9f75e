#include "protocol/http/connection.h"

#include "protocol/http/cors.h"
#include "protocol/http/generation.h"
#include "protocol/http/plain_answers.h"
#include "protocol/openai/token_requests.h"

namespace reprise::protocol {

using runtime::Clock;
using runtime::Result;
using runtime::Task;
using runtime::TimePoint;
using State = RequestReader::State;

namespace {

constexpr std::chrono::milliseconds kGentleClose{2000};
constexpr std::chrono::milliseconds kHastyClose{100};  // when the server stops
constexpr std::size_t kBytesPerSecond = 64u << 10;     // that a body has to come with, after its grace

bool names_same(std::string_view a, std::string_view lower) {
  if (a.size() != lower.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char c = a[i] >= 'A' && a[i] <= 'Z' ? static_cast<char>(a[i] - 'A' + 'a') : a[i];
    if (c != lower[i]) return false;
  }
  return true;
}

}  // namespace

Connection::Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<ServerContext> context)
    : context_(std::move(context)),
      wire_(std::move(socket), context_->options.header_bytes + context_->options.pipelined_bytes,
            context_->options.write_timeout),
      reader_({context_->options.header_bytes, context_->options.body_bytes}) {}

void Connection::on_start() {
  launch(wire_.pump());
  launch(serve());
}

void Connection::on(FinishConnection) {
  finishing_ = true;
  if (idle_) wire_.interrupt();
}

void Connection::on(AbortConnection) {
  finishing_ = true;
  wire_.interrupt();
  wire_.give_up();
}

Task<void> Connection::serve() {
  bool open = true;
  while (open) {
    auto reading = read_request();
    open = co_await reading;
    if (!open) break;
    // A request that cannot be read whole leaves bytes behind that are no request: nothing more is read then.
    const bool whole = reader_.state() == State::kDone;
    HttpRequest request = whole ? reader_.take() : reader_.request();
    Exchange exchange(*context_, wire_, std::move(request));
    if (!whole) exchange.close_after();
    if (refusal_) {
      auto refusing = exchange.refuse(std::move(*refusal_));
      open = co_await refusing;
      refusal_.reset();
    } else {
      auto answering = answer(exchange);
      open = co_await answering;
    }
    exchange.finish();
    open = open && exchange.keep_alive() && !finishing_;
  }
  auto closing = wire_.close_gently(finishing_ ? kHastyClose : kGentleClose);
  co_await closing;
  stop();
}

Task<bool> Connection::read_request() {
  auto reading_head = read_head();
  const bool head = co_await reading_head;
  if (!head || refusal_) co_return head;
  refusal_ = objection(reader_.request());
  // Without a body the request is whole, and the connection can go on after the refusal.
  const bool short_body = reader_.request().header("transfer-encoding").empty() &&
                          reader_.request().header("content-length").size() <= 5;
  if (refusal_ && (!short_body || reader_.request().expects_continue)) co_return true;
  auto reading_body = read_body();
  const bool body = co_await reading_body;
  co_return body;
}

Task<bool> Connection::read_head() {
  std::optional<TimePoint> deadline;  // set where there is a wait: a head that came whole needs no clock
  bool begun = false;
  idle_ = true;
  while (true) {
    if (!begun && !wire_.inflow().empty()) {
      begun = true;
      deadline.reset();
    }
    wire_.consume(reader_.feed(wire_.inflow()));
    idle_ = reader_.state() == State::kHead;
    if (reader_.state() == State::kFailed) refusal_ = reader_.error();
    if (!idle_) co_return true;
    if (finishing_) co_return false;
    if (!deadline) {
      const HttpOptions& options = context_->options;
      deadline = runtime::deadline_after(begun ? options.header_timeout : options.idle_timeout);
    }
    auto waiting = wire_.more(*deadline);
    const bool came = co_await waiting;
    if (!came) co_return false;
  }
}

Task<bool> Connection::read_body() {
  if (reader_.request().expects_continue) {
    auto writing = wire_.write("HTTP/1.1 100 Continue\r\n\r\n", runtime::CancelToken());
    const bool written = co_await writing;
    if (!written) co_return false;
  }
  reader_.read_body();
  std::optional<TimePoint> begin;  // of the first wait
  while (true) {
    wire_.consume(reader_.feed(wire_.inflow()));
    if (reader_.state() == State::kDone) co_return true;
    if (reader_.state() == State::kFailed) {
      if (!refusal_) refusal_ = reader_.error();
      co_return true;
    }
    if (!begin) begin = Clock::now();
    const auto earned = std::chrono::seconds(reader_.body_bytes_read() / kBytesPerSecond);
    const TimePoint deadline = *begin + context_->options.body_timeout + earned;
    auto waiting = wire_.more(deadline);
    const bool came = co_await waiting;
    if (came) continue;
    if (wire_.client_closed() || finishing_) co_return false;
    refusal_ = ApiError{.status = 408, .message = "the body came too slowly", .code = "body_timeout"};
    co_return true;
  }
}

std::optional<std::string> Connection::tenant_of(const HttpRequest& request) const {
  if (context_->options.keys.empty()) return std::string();
  constexpr std::string_view kBearer = "bearer ";
  const std::string_view authorization = request.header("authorization");
  if (authorization.size() > kBearer.size() && names_same(authorization.substr(0, kBearer.size()), kBearer)) {
    return context_->options.keys.tenant_of(authorization.substr(kBearer.size()));
  }
  const std::string_view key = request.header("x-api-key");
  return key.empty() ? std::nullopt : context_->options.keys.tenant_of(key);
}

std::optional<ApiError> Connection::objection(const HttpRequest& request) const {
  const Route route = route_of(request.path);
  if (is_preflight(request)) return std::nullopt;
  if (route == Route::kUnknown) {
    return ApiError{.status = 404, .message = "there is nothing at this path", .code = "not_found"};
  }
  if (request.method != "OPTIONS" && !allows(route, request.method)) {
    return ApiError{.status = 405,
                    .message = "this path takes " + std::string(allowed_methods(route)),
                    .code = "method_not_allowed"};
  }
  if (!is_public(route) && request.method != "OPTIONS" && !tenant_of(request)) {
    return ApiError{.status = 401, .message = "a valid API key is needed", .code = "invalid_api_key"};
  }
  return std::nullopt;
}

Task<bool> Connection::answer(Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  const std::string tenant = tenant_of(request).value_or("");
  exchange.record().tenant = tenant;
  bool goes_on = false;
  if (request.method == "OPTIONS") {
    const std::string methods(allowed_methods(exchange.route()));
    HttpResponse response = is_preflight(request) ? preflight_response(request, methods)
                                                  : HttpResponse{.status = 204, .content_type = {}};
    response.headers.emplace_back("Allow", methods);
    auto responding = exchange.respond(std::move(response));
    goes_on = co_await responding;
  } else if (exchange.route() == Route::kChat || exchange.route() == Route::kCompletion) {
    Generation generation(exchange, tenant);
    auto running = generation.run();
    goes_on = co_await running;
  } else if (request.method == "POST") {
    auto answering = answer_tokens(exchange);
    goes_on = co_await answering;
  } else {
    auto responding = exchange.respond(plain_answer(exchange.route(), request, *context_));
    goes_on = co_await responding;
  }
  co_return goes_on;
}

namespace {

/// The response to what the engine answered; `body` makes its JSON.
template <class T, class Body>
HttpResponse response_of(const Result<Answer<T>>& answer, Body body) {
  if (!answer.ok()) {
    return error_response({.status = 500, .message = answer.error().describe(), .code = "internal_error"});
  }
  if (const auto* error = std::get_if<ServiceError>(&*answer)) return error_response(to_api_error(*error));
  return json_response(body(std::get<T>(*answer)));
}

}  // namespace

Task<bool> Connection::answer_tokens(Exchange& exchange) {
  auto parsing =
      context_->bodies.parse(exchange.route(), std::move(exchange.request().body), exchange.wire().gone());
  std::optional<ParsedBody> parsed = co_await parsing;
  if (!parsed) {
    exchange.record().outcome = "client_left";
    exchange.record().status = kClientLeft;
    co_return false;
  }
  HttpResponse response;
  if (const auto* refused = std::get_if<ApiError>(&*parsed)) {
    response = error_response(*refused);
  } else if (auto* tokenize = std::get_if<TokenizeRequest>(&*parsed)) {
    const bool pieces = tokenize->with_pieces;
    auto asking = context_->service.tokenize(std::move(*tokenize));
    const Result<Answer<Tokenized>> answer = co_await asking;
    response = response_of(answer, [&](const Tokenized& found) { return tokenize_body(found, pieces); });
  } else if (auto* detokenize = std::get_if<DetokenizeRequest>(&*parsed)) {
    auto asking = context_->service.detokenize(std::move(*detokenize));
    const Result<Answer<Detokenized>> answer = co_await asking;
    response = response_of(answer, detokenize_body);
  } else {
    auto asking = context_->service.render(std::get<RenderRequest>(std::move(*parsed)));
    const Result<Answer<Rendered>> answer = co_await asking;
    response = response_of(answer, apply_template_body);
  }
  auto responding = exchange.respond(std::move(response));
  const bool sent = co_await responding;
  co_return sent;
}

}  // namespace reprise::protocol
