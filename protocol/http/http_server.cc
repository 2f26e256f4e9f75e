#include "protocol/http/http_server.h"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "protocol/http/connection_lists.h"
#include "protocol/http/exchange.h"
#include "protocol/http/gate.h"
#include "protocol/http/generation.h"
#include "protocol/http/log.h"
#include "protocol/http/pages.h"
#include "protocol/http/request_reader.h"
#include "protocol/http/server_context.h"
#include "protocol/http/wire.h"
#include "runtime/actor.h"
#include "runtime/asio.h"
#include "runtime/asio_home.h"
#include "runtime/event.h"
#include "runtime/supervision.h"
#include "runtime/wait.h"
#include "traces/recorder.h"

namespace reprise::protocol {
namespace {

using boost::asio::ip::tcp;
using runtime::Clock;
using runtime::Result;
using runtime::Task;
using runtime::TimePoint;
using runtime::use_actor;
using State = RequestReader::State;

// -- a connection

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

/// Answer what is being answered, then close.
struct FinishConnection {};
/// Break off what is being answered, with an error.
struct AbortConnection {};

/// One connection: reads requests and answers them, one after the other in the order they came, until the
/// client closes, a limit is passed, or the server stops.
///
/// Where all seats are taken a newcomer has that of a connection that waits for a request, or whose request still comes.
/// Where there is none it gets a seat in the reserve, where one request is answered and nothing is waited for
/// long. An actor on the server's loop.
class Connection : public runtime::Actor, private Waiting, private SenderList::Entry {
 public:
  using Accepts = runtime::Messages<FinishConnection, AbortConnection>;
  static constexpr const char* kName = "http connection";

  Connection(tcp::socket socket, Seat seat, const SenderNetwork& network,
             std::shared_ptr<ServerContext> context);
  ~Connection() override;

  void on_start();
  void on(FinishConnection);
  void on(AbortConnection);

 private:
  Task<void> serve();
  /// Until a request is whole, or only its head where that is enough to refuse it. False: nothing to answer.
  Task<bool> read_request();
  Task<bool> read_head_and_body();
  Task<bool> read_head();
  Task<bool> read_body();
  /// False: the connection is to be closed.
  Task<bool> answer(Exchange& exchange);
  void give_way() override;
  void stop_sending() override;
  /// Among those that wait or, when a request has begun to come, among those that send.
  void list(bool begun);
  WaitingList& waiting_list();

  const std::shared_ptr<ServerContext> context_;
  const Seat seat_;
  const SenderNetwork network_;
  Wire wire_;
  RequestReader reader_;
  std::int64_t head_began_ns_ = 0;      // of the request at hand, when its first byte was seen
  std::optional<BodyLease> lease_;      // of the body being read
  std::optional<Admission> admission_;  // of the request at hand, when its head is whole
  std::optional<ApiError> refusal_;     // of the request at hand
  bool idle_ = true;                    // no request that is to be answered has come
  bool finishing_ = false;
  bool stopped_sending_ = false;  // the request at hand is not read to its end
};

Connection::Connection(tcp::socket socket, Seat seat, const SenderNetwork& network,
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
    const Route& route = admission_ ? admission_->route : context_->routes.find(request.path, request.method);
    Exchange exchange(*context_, wire_, std::move(request), route, std::move(*lease_), head_began_ns_);
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
  admission_.reset();
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
  admission_.emplace(admission_of(reader_.request(), seat_, *context_));
  refusal_ = std::move(admission_->objection);
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
      refusal_ = server_busy("the server has reached its limit of unprocessed request bodies");
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
      refusal_ = server_busy("this address has reached its share of unfinished request bodies");
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
  const Tenant& tenant = admission_->tenant;
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

// -- the listener

constexpr std::chrono::milliseconds kPauseAfterError{100};  // out of file descriptors, most likely
constexpr std::chrono::milliseconds kSeatCheck{50};  // one that begins to wait for a request tells nobody
constexpr std::chrono::seconds kAbortTime{1};
constexpr std::uint32_t kCrowd = 4;  // a network with more than one seat in so many gives way first

/// Stop accepting; let what is being answered go on for `patience`, then break it off. Answers whether every
/// connection has been closed.
struct CloseServer {
  using Reply = bool;
  runtime::Duration patience;
};

/// Accepts connections and knows those that are open. An actor on the server's loop.
///
/// A newcomer is seated, in this order: on a free regular seat; on that of a request that comes slowly, which is closed,
/// where one network sends many (connection_lists.h); on that of the connection that has waited longest for a request; on
/// that of any request that still comes; in the reserve; on the seat of who waits longest there. Only when all are busy it
/// has to wait, and those behind it wait in the system's backlog.
class Listener : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<CloseServer, runtime::Down>;
  static constexpr const char* kName = "http listener";
  static constexpr std::uint32_t kConcurrentHandlers = 4;

  Listener(tcp::acceptor acceptor, std::shared_ptr<ServerContext> context);

  void on_start() { launch(accept()); }
  void on(runtime::Down down);
  Task<bool> on(CloseServer close);

 private:
  struct Open {
    runtime::RefOf<Connection> connection;
    Seat seat;
  };

  Task<void> accept();
  /// Where a newcomer may sit; nothing while all are busy. One that gives way is gone some turns later, so
  /// until then there is one more than there may be.
  std::optional<Seat> free_seat();
  /// Until none is open, or the time is up; or, for accept(), until one has closed.
  Task<void> wait_for_closing(TimePoint deadline);

  tcp::acceptor acceptor_;
  const std::shared_ptr<ServerContext> context_;
  std::unordered_map<runtime::ActorId, Open> open_;
  std::uint32_t in_reserve_ = 0;  // of open_
  bool closing_ = false;
  runtime::Event change_;  // a connection has closed, or the server begins to
};

Listener::Listener(tcp::acceptor acceptor, std::shared_ptr<ServerContext> context)
    : acceptor_(std::move(acceptor)), context_(std::move(context)) {}

Task<void> Listener::accept() {
  while (!closing_) {
    auto accepting = acceptor_.async_accept(use_actor);
    Result<tcp::socket> socket = co_await accepting;
    if (closing_) break;
    if (!socket.ok()) {
      log_line(LogLevel::kError, "accept: " + socket.error().describe());
      context_->waiting.make_room();
      auto pausing = runtime::sleep_for(kPauseAfterError);
      const Result<void> rested = co_await pausing;
      continue;
    }
    std::optional<Seat> seat = free_seat();
    while (!seat && !closing_) {
      auto waiting = wait_for_closing(runtime::deadline_after(kSeatCheck));
      co_await waiting;
      seat = free_seat();
    }
    if (closing_) break;
    boost::system::error_code error;
    const tcp::endpoint client = socket->remote_endpoint(error);  // of nobody, where it has gone already
    const auto connection = spawn<Connection>({.placement = runtime::Placement::near()}, std::move(*socket),
                                              *seat, network_of(client.address()), context_);
    runtime::watch(*this, connection);
    open_.emplace(connection.id(), Open{connection, *seat});
    if (*seat == Seat::kReserve) ++in_reserve_;
    context_->metrics.connections_changed(1);
  }
}

std::optional<Seat> Listener::free_seat() {
  const HttpOptions& options = context_->options;
  if (open_.size() - in_reserve_ < options.connections) return Seat::kRegular;
  // A network that fills the seats with requests that it does not end gives way before those that wait for one.
  const TimePoint now = Clock::now();
  if (context_->senders.make_room(options.connections / kCrowd + 1, now) || context_->waiting.make_room() ||
      context_->senders.make_room(1, now)) {
    context_->metrics.gave_way();
    return Seat::kRegular;
  }
  if (in_reserve_ < options.reserved_connections) return Seat::kReserve;
  if (context_->waiting_in_reserve.make_room()) {
    context_->metrics.gave_way();
    return Seat::kReserve;
  }
  return std::nullopt;
}

void Listener::on(runtime::Down down) {
  const auto found = open_.find(down.who);
  if (found == open_.end()) return;
  if (found->second.seat == Seat::kReserve) --in_reserve_;
  open_.erase(found);
  context_->metrics.connections_changed(-1);
  if (down.reason == runtime::StopReason::kFailed) {
    log_line(LogLevel::kError, "http: a connection failed: " + down.why);
  }
  change_.signal();
}

Task<void> Listener::wait_for_closing(TimePoint deadline) {
  auto waiting = change_.wait(deadline);
  const Result<void> waited = co_await waiting;
}

Task<bool> Listener::on(CloseServer close) {
  closing_ = true;
  context_->draining = true;
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  change_.signal();

  const TimePoint patience_ends = runtime::deadline_after(close.patience);
  for (const auto& [id, open] : open_) open.connection.tell(FinishConnection{});
  while (!open_.empty() && Clock::now() < patience_ends) {
    auto waiting = wait_for_closing(patience_ends);
    co_await waiting;
  }
  const TimePoint end = runtime::deadline_after(kAbortTime);
  for (const auto& [id, open] : open_) open.connection.tell(AbortConnection{});
  while (!open_.empty() && Clock::now() < end) {
    auto waiting = wait_for_closing(end);
    co_await waiting;
  }
  co_return open_.empty();
}

// -- the server

constexpr std::chrono::seconds kGrace{3};  // for the listener itself

tcp::acceptor listen(boost::asio::io_context& context, const HttpOptions& options) {
  try {
    tcp::resolver resolver(context);
    const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive);
    return tcp::acceptor(context, *found.begin(), /*reuse_addr=*/true);
  } catch (const boost::system::system_error& error) {
    throw ListenError("cannot listen on " + options.host + " port " + std::to_string(options.port) + ": " +
                      error.code().message());
  }
}

}  // namespace

IoLoop::IoLoop() : work_(boost::asio::make_work_guard(context_)), thread_([this] { context_.run(); }) {}

IoLoop::~IoLoop() {
  work_.reset();
  context_.stop();
  thread_.join();
}

struct HttpServer::Listening {
  runtime::RefOf<Listener> listener;
  std::shared_ptr<ServerContext> context;
  bool stopped = false;
};

HttpServer::HttpServer(runtime::System& system, IoLoop& loop, Service& service, HttpOptions options,
                       ApiTable apis)
    : listening_(std::make_unique<Listening>()) {
  tcp::acceptor acceptor = listen(loop.context(), options);
  const tcp::endpoint endpoint = acceptor.local_endpoint();
  port_ = endpoint.port();
  std::ostringstream url;
  url << "http://" << endpoint << "/";
  url_ = url.str();
  const runtime::HomePtr home = runtime::adopt_io_context(system, loop.context());
  listening_->context =
      std::make_shared<ServerContext>(std::move(options), std::move(apis), service, system, home);
  listening_->listener = system.spawn<Listener>({.placement = runtime::Placement::on(home)},
                                                std::move(acceptor), listening_->context);
}

HttpServer::~HttpServer() {
  stop(std::chrono::milliseconds(0));
}

bool HttpServer::stop(std::chrono::milliseconds patience) {
  if (std::exchange(listening_->stopped, true)) return true;
  const runtime::Result<bool> closed =
      listening_->listener.ask_blocking(CloseServer{patience}, patience + kGrace);
  listening_->listener.stop();
  return closed.ok() && *closed;
}

}  // namespace reprise::protocol
