#include "protocol/http/connection.h"

#include <algorithm>

#include "protocol/http/api_answer.h"
#include "protocol/http/cors.h"
#include "protocol/http/pages.h"
#include "protocol/http/refusals.h"
#include "traces/recorder.h"

namespace reprise::protocol {

using runtime::Clock;
using runtime::Result;
using runtime::Task;
using runtime::TimePoint;
using State = RequestReader::State;

namespace {

constexpr std::chrono::milliseconds kGentleClose{2000};
constexpr std::chrono::milliseconds kHastyClose{100};    // when the server stops
constexpr std::size_t kBytesPerSecond = 64u << 10;       // that a body has to come with, after its grace
constexpr std::chrono::milliseconds kReserveTime{2000};  // for anything in the reserve

std::chrono::milliseconds time_in(Seat seat, std::chrono::milliseconds usual) {
  return seat == Seat::kReserve ? std::min(usual, kReserveTime) : usual;
}

WireLimits wire_limits(const HttpOptions& options, Seat seat) {
  const std::size_t inflow = options.header_bytes + options.pipelined_bytes;
  // As much again as the largest request has is thrown away before its sender counts as gone.
  return {.inflow = inflow,
          .flood = inflow + options.body_bytes,
          .write_timeout = time_in(seat, options.write_timeout)};
}

}  // namespace

Connection::Connection(boost::asio::ip::tcp::socket socket, Seat seat, const SenderNetwork& network,
                       std::shared_ptr<ServerContext> context)
    : context_(std::move(context)),
      seat_(seat),
      network_(network),
      wire_(std::move(socket), wire_limits(context_->options, seat)),
      reader_({context_->options.header_bytes, context_->options.body_bytes}) {}

// The list is the context's, which may go with this.
Connection::~Connection() {
  SenderList::remove(*this);
}

void Connection::on_start() {
  launch(wire_.pump());
  launch(serve());
}

void Connection::on(FinishConnection) {
  finishing_ = true;
  if (idle_) wire_.interrupt();
}

void Connection::give_way() {
  WaitingList::remove(*this);
  finishing_ = true;
  wire_.hurry();
}

void Connection::stop_sending() {
  SenderList::remove(*this);
  stopped_sending_ = true;
  give_way();
}

void Connection::list(bool begun) {
  if (begun && seat_ == Seat::kRegular) {
    WaitingList::remove(*this);
    context_->senders.add(*this, network_, Clock::now());
  } else {
    waiting_list().add(*this);
  }
}

WaitingList& Connection::waiting_list() {
  return seat_ == Seat::kReserve ? context_->waiting_in_reserve : context_->waiting;
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
    HttpRequest request = whole ? reader_.take() : reader_.give_up();
    Exchange exchange(*context_, wire_, std::move(request), std::move(*lease_), head_began_ns_);
    if (!whole || seat_ == Seat::kReserve) exchange.close_after();
    wire_.begin_answer();
    if (refusal_) {
      auto refusing = exchange.refuse(std::move(*refusal_));
      open = co_await refusing;
      refusal_.reset();
    } else {
      auto answering = answer(exchange);
      open = co_await answering;
    }
    exchange.finish();
    wire_.end_answer();
    open = open && exchange.keep_alive() && !finishing_ && !wire_.overrun();
  }
  waiting_list().add(*this);
  auto closing = wire_.close_gently(finishing_ ? kHastyClose : kGentleClose);
  co_await closing;
  stop();
}

Task<bool> Connection::read_request() {
  lease_.emplace(context_->body_budget);
  auto reading = read_head_and_body();
  const bool read = co_await reading;
  SenderList::remove(*this);
  co_return read;
}

Task<bool> Connection::read_head_and_body() {
  auto reading_head = read_head();
  const bool head = co_await reading_head;
  WaitingList::remove(*this);
  if (!head || refusal_) co_return head;
  refusal_ = objection(reader_.request(), seat_, *context_);
  // Without a body the request is whole, and the connection can go on after the refusal; but there is no time
  // for that where it is refused because the server is busy.
  const bool short_body = reader_.request().header("transfer-encoding").empty() &&
                          reader_.request().header("content-length").size() <= 5;
  const bool reads_on =
      !refusal_ || (short_body && !reader_.request().expects_continue && refusal_->status != 503);
  if (!reads_on) co_return true;
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
      head_began_ns_ = traces::now_ns();
      deadline.reset();
    }
    wire_.consume(reader_.feed(wire_.inflow()));
    idle_ = reader_.state() == State::kHead;
    if (reader_.state() == State::kFailed) refusal_ = reader_.error();
    if (!idle_) co_return true;
    if (finishing_) co_return false;
    if (!deadline) {
      const HttpOptions& options = context_->options;
      const auto usual = begun ? options.header_timeout : options.idle_timeout;
      deadline = runtime::deadline_after(time_in(seat_, usual));
      list(begun);
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
    if (reader_.state() == State::kFailed) {
      if (!refusal_) refusal_ = reader_.error();
      co_return true;
    }
    if (!lease_->grow_to(reader_.body_bytes_read())) {
      refusal_ = server_busy(
          "the server has reached its limit of unprocessed request bodies");
      co_return true;
    }
    if (reader_.state() == State::kDone) co_return true;
    if (stopped_sending_) co_return false;
    if (!begin) begin = Clock::now();
    const HttpOptions& options = context_->options;
    if (seat_ == Seat::kRegular) list(true);
    SenderList::note(*this, reader_.body_bytes_read());
    // Half of the bytes are for others; one body is always let in.
    if (context_->senders.bytes_of(network_) > std::max(options.bodies_bytes / 2, options.body_bytes)) {
      refusal_ = server_busy(
          "this address has reached its share of unfinished request bodies");
      co_return true;
    }
    const auto earned = std::chrono::seconds(reader_.body_bytes_read() / kBytesPerSecond);
    const auto allowed =
        std::min<runtime::Duration>(options.body_timeout + earned, options.body_total_timeout);
    auto waiting = wire_.more(*begin + allowed);
    const bool came = co_await waiting;
    if (came) continue;
    if (wire_.client_closed() || finishing_) co_return false;
    refusal_ = ApiError{.status = 408, .message = "the body arrived too slowly", .code = "body_timeout"};
    co_return true;
  }
}

Task<bool> Connection::answer(Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  static const Tenant kNobody;  // who asks for what needs no key
  const Tenant* known = tenant_of(request, context_->options);
  const Tenant& tenant = known == nullptr ? kNobody : *known;
  exchange.record().tenant = tenant.name;
  bool goes_on = false;
  if (request.method == "OPTIONS") {
    const std::string methods(exchange.route().allowed_methods());
    HttpResponse response = is_preflight(request) ? preflight_response(request, methods)
                                                  : HttpResponse{.status = 200, .content_type = {}};
    response.headers.emplace_back("Allow", methods);
    auto responding = exchange.respond(std::move(response));
    goes_on = co_await responding;
  } else if (exchange.route().endpoint != nullptr) {
    auto answering = answer_call(exchange, tenant);
    goes_on = co_await answering;
  } else {
    auto responding = exchange.respond(page_answer(exchange.route(), request, *context_));
    goes_on = co_await responding;
  }
  co_return goes_on;
}

}  // namespace reprise::protocol
