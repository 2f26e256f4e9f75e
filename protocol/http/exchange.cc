#include "protocol/http/exchange.h"

#include "protocol/http/gate.h"

namespace reprise::protocol {

using runtime::CancelToken;
using runtime::Task;

namespace {

constexpr std::size_t kMaxIdBytes = 128;

/// Accepts a client's request ID only if it is safe in headers and logs.
bool is_good_id(std::string_view id) {
  if (id.empty() || id.size() > kMaxIdBytes) return false;
  for (const char c : id) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '_' || c == '.' || c == ':';
    if (!plain) return false;
  }
  return true;
}

std::string plain_method(const std::string& method) {
  for (const char* known : {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    if (method == known) return method;
  }
  return "other";
}

}  // namespace

Exchange::Exchange(ServerContext& context, Wire& wire, HttpRequest request, const Route& route,
                   BodyLease lease, std::int64_t began_ns)
    : context_(context),
      wire_(wire),
      request_(std::move(request)),
      route_(route),
      lease_(std::move(lease)),
      begin_(runtime::Clock::now()),
      written_before_(wire.bytes_written()),
      keep_alive_(request_.keep_alive) {
  const std::string_view given = request_.header("x-request-id");
  record_.id = is_good_id(given) ? std::string(given) : "req-" + new_id();
  record_.method = plain_method(request_.method);
  record_.path = route_.path;
  record_.generates = route_.generates;
  if (route_.endpoint == nullptr) return;
  trace_ = traces::RequestTrace(record_.id, "accepted", began_ns);
  trace_.mark("read", {{"bytes", request_.body.size()}});
}

void Exchange::drop_body() {
  std::string().swap(request_.body);
  lease_.release();
}

bool Exchange::keeps_alive() const {
  return keep_alive_ && !context_.draining && !wire_.overrun();
}

Headers Exchange::common_headers() const {
  Headers headers = cors_headers(request_, context_.options.cors_origins);
  headers.reserve(headers.size() + 2);
  headers.emplace_back("Server", context_.options.server_name);
  headers.emplace_back("X-Request-Id", record_.id);
  return headers;
}

Task<bool> Exchange::respond(HttpResponse response) {
  record_.status = response.status;
  keep_alive_ = keeps_alive();
  std::string text =
      head_text(response, common_headers(), Framing::kLength, request_.minor_version, keep_alive_);
  if (request_.method != "HEAD") text += response.body;
  auto writing = wire_.write(std::move(text), CancelToken());
  const bool written = co_await writing;
  co_return written;
}

Task<bool> Exchange::refuse(Error error) {
  record_.outcome = shown(error).code;
  HttpResponse response = error_response(error, route_.dialect());
  if (error.kind == ErrorKind::kMethodNotAllowed)
    response.headers.emplace_back("Allow", route_.allowed_methods());
  if (error.kind == ErrorKind::kUpgradeRequired) response.headers.emplace_back("Upgrade", "HTTP/1.1");
  auto responding = respond(std::move(response));
  const bool sent = co_await responding;
  co_return sent;
}

void Exchange::open_stream(std::string_view content_type) {
  record_.status = 200;
  stream_open_ = true;
  const bool chunked = request_.minor_version > 0;
  keep_alive_ = keeps_alive() && chunked;
  HttpResponse response{.content_type = content_type};
  response.headers.emplace_back("Cache-Control", "no-cache");
  response.headers.emplace_back("X-Accel-Buffering", "no");  // disables buffering in proxies
  unsent_ = head_text(response, common_headers(), chunked ? Framing::kChunked : Framing::kClose,
                      request_.minor_version, keep_alive_);
}

Task<bool> Exchange::send(std::string data, Last last) {
  std::string text = std::move(unsent_);
  unsent_.clear();
  if (request_.minor_version == 0) {
    text += data;
  } else {
    text.reserve(text.size() + data.size() + 32);
    if (!data.empty()) append_chunk(text, data);  // an empty chunk would end the stream
    if (last == Last::kYes) text += kLastChunk;
  }
  auto writing = wire_.write(std::move(text), wire_.gone());
  const bool written = co_await writing;
  if (!std::exchange(streamed_, true)) trace_.mark("first_bytes");
  co_return written;
}

Task<bool> Exchange::give_up() {
  if (is_abandoned()) {
    record_.outcome = "client_left";
    if (!answered()) record_.status = kClientLeft;
    context_.metrics.client_left();
    co_return false;
  }
  close_after();
  auto refusing = refuse(shutting_down());
  const bool sent = co_await refusing;
  co_return sent;
}

void Exchange::finish() {
  const double seconds = std::chrono::duration<double>(runtime::Clock::now() - begin_).count();
  record_.ms = seconds * 1000;
  record_.bytes = wire_.bytes_written() - written_before_;
  context_.metrics.request_done(record_.path, record_.status, seconds);
  trace_.end("sent", {{"status", record_.status}, {"bytes", record_.bytes}});
  log_request(record_);
}

}  // namespace reprise::protocol
