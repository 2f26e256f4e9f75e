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
#include "runtime/event.h"
#include "runtime/interop/asio.h"
#include "runtime/interop/asio_executor.h"
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
constexpr std::chrono::milliseconds kHastyClose{100};    // during shutdown
constexpr std::size_t kBytesPerSecond = 64u << 10;       // minimum rate of a body after its grace period
constexpr std::chrono::milliseconds kReserveTime{2000};  // for any request on a reserve connection

std::chrono::milliseconds time_in(Seat seat, std::chrono::milliseconds usual) {
  return seat == Seat::kReserve ? std::min(usual, kReserveTime) : usual;
}

WireLimits wire_limits(const HttpOptions& options, Seat seat) {
  const std::size_t inflow = options.header_bytes + options.pipelined_bytes;
  // The flood limit: as much again as the largest request.
  return {.inflow = inflow,
          .flood = inflow + options.body_bytes,
          .write_timeout = time_in(seat, options.write_timeout)};
}

/// Finish the current answer, then close.
struct FinishConnection {};
/// Abort the current answer with an error.
struct AbortConnection {};

/// One connection: reads requests and answers them in order until the client closes, a limit is exceeded, or
/// the server stops. An actor on the server's loop.
///
/// When all regular seats are taken, a newcomer replaces a connection that is idle or whose request is still
/// arriving. If there is none, it gets a reserve seat, which serves one request with short timeouts.
class Connection : public runtime::Actor, private IdleConnection, private SenderList::Entry {
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
  /// Reads a request, or only its head if that suffices to refuse it. Returns false if there is nothing to
  /// answer.
  Task<bool> read_request();
  Task<bool> read_head_and_body();
  Task<bool> read_head();
  Task<bool> read_body();
  /// Returns false if the connection must be closed.
  Task<bool> answer(Exchange& exchange);
  void close_for_newcomer() override;
  void stop_sending() override;
  /// Enters the idle connections or, if a request has begun to arrive, the senders.
  void list(bool begun);
  WaitingList& waiting_list();

  const std::shared_ptr<ServerContext> context_;
  const Seat seat_;
  const SenderNetwork network_;
  Wire wire_;
  RequestReader reader_;
  std::int64_t head_began_ns_ = 0;  // arrival of the current request's first byte
  std::optional<BodyLease> lease_;
  std::optional<Admission> admission_;  // set once the current request's head is complete
  std::optional<Error> refusal_;
  bool idle_ = true;  // no request to answer has arrived
  bool finishing_ = false;
  bool stopped_sending_ = false;  // the current request is not read to its end
};

Connection::Connection(tcp::socket socket, Seat seat, const SenderNetwork& network,
                       std::shared_ptr<ServerContext> context)
    : context_(std::move(context)),
      seat_(seat),
      network_(network),
      wire_(std::move(socket), wire_limits(context_->options, seat)),
      reader_({context_->options.header_bytes, context_->options.body_bytes}) {}

// Leaves the list here: it belongs to the context, which may be destroyed with this actor.
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

void Connection::close_for_newcomer() {
  WaitingList::remove(*this);
  finishing_ = true;
  wire_.hurry();
}

void Connection::stop_sending() {
  SenderList::remove(*this);
  stopped_sending_ = true;
  close_for_newcomer();
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
    // The unread rest of an incomplete request cannot be parsed as a new one: nothing more is read.
    const bool whole = reader_.state() == State::kDone;
    HttpRequest request = whole ? reader_.take() : reader_.give_up();
    Exchange exchange(*context_, wire_, std::move(request), admission_->route, std::move(*lease_),
                      head_began_ns_);
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
  if (!head) co_return false;
  const bool malformed = refusal_.has_value();
  admission_.emplace(admission_of(reader_.request(), seat_, *context_, std::move(refusal_)));
  refusal_ = std::move(admission_->rejection);
  if (malformed) co_return true;
  // A refused request with a short or no body is read to its end so that the connection can be reused, unless
  // it was refused because the server is busy.
  const bool short_body = reader_.request().header("transfer-encoding").empty() &&
                          reader_.request().header("content-length").size() <= 5;
  const bool reads_on = !refusal_ || (short_body && !reader_.request().expects_continue &&
                                      refusal_->kind != ErrorKind::kUnavailable);
  if (!reads_on) co_return true;
  auto reading_body = read_body();
  const bool body = co_await reading_body;
  co_return body;
}

Task<bool> Connection::read_head() {
  std::optional<TimePoint> deadline;
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
  std::optional<TimePoint> begin;
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
    // One network may use half of the body memory, and always one body.
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
    refusal_ = Error{ErrorKind::kTooSlow, "the body arrived too slowly"};
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

constexpr std::chrono::milliseconds kPauseAfterError{100};  // most likely out of file descriptors
constexpr std::chrono::milliseconds kSeatCheck{50};         // an idle connection does not notify the listener
constexpr std::chrono::seconds kAbortTime{1};
constexpr std::uint32_t kCrowd = 4;  // a network with more than 1/kCrowd of the seats is reduced first

/// Stop accepting; let running answers continue for `patience`, then abort them. The reply is true if every
/// connection closed.
struct CloseServer {
  using Reply = bool;
  runtime::Duration patience;
};

/// Accepts connections and tracks open ones. An actor on the server's loop.
///
/// A newcomer gets the first of: a free regular seat; the seat of a slowly arriving request, if one network
/// has many (connection_lists.h); the seat of the longest idle connection; the seat of any request still
/// arriving; a reserve seat; the seat of the longest idle reserve connection. Otherwise it waits, and later
/// ones wait in the system's backlog.
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
  /// Returns the seat for a newcomer, or nullopt while all are busy. A connection told to close is gone some
  /// turns later, so the limit may be exceeded by one until then.
  std::optional<Seat> free_seat();
  /// Waits until no connection is open or the deadline; called by accept(), until one has closed.
  Task<void> wait_for_closing(TimePoint deadline);

  tcp::acceptor acceptor_;
  const std::shared_ptr<ServerContext> context_;
  std::unordered_map<runtime::ActorId, Open> open_;
  std::uint32_t in_reserve_ = 0;
  bool closing_ = false;
  runtime::Event change_;  // a connection has closed, or the server is closing
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
      context_->waiting.close_one();
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
    const tcp::endpoint client = socket->remote_endpoint(error);  // unset if the client has already gone
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
  // A network that fills the seats with unfinished requests loses one before idle connections do.
  const TimePoint now = Clock::now();
  if (context_->senders.close_one(options.connections / kCrowd + 1, now) || context_->waiting.close_one() ||
      context_->senders.close_one(1, now)) {
    context_->metrics.gave_way();
    return Seat::kRegular;
  }
  if (in_reserve_ < options.reserved_connections) return Seat::kReserve;
  if (context_->waiting_in_reserve.close_one()) {
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

constexpr std::chrono::seconds kGrace{3};

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
  const runtime::ExecutorPtr executor = runtime::adopt_io_context(system, loop.context());
  listening_->context =
      std::make_shared<ServerContext>(std::move(options), std::move(apis), service, system, executor);
  listening_->listener = system.spawn<Listener>({.placement = runtime::Placement::on(executor)},
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
