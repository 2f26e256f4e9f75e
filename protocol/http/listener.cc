#include "protocol/http/listener.h"

#include "protocol/http/log.h"
#include "protocol/http/sender_list.h"
#include "runtime/asio.h"
#include "runtime/wait.h"

namespace reprise::protocol {

using boost::asio::ip::tcp;
using runtime::Clock;
using runtime::Result;
using runtime::Task;
using runtime::TimePoint;
using runtime::use_actor;

namespace {

constexpr std::chrono::milliseconds kPauseAfterError{100};  // out of file descriptors, most likely
constexpr std::chrono::milliseconds kSeatCheck{50};  // one that begins to wait for a request tells nobody
constexpr std::chrono::seconds kAbortTime{1};
constexpr std::uint32_t kCrowd = 4;  // a network with more than one seat in so many gives way first

}  // namespace

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
  const runtime::TimePoint now = Clock::now();
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

}  // namespace reprise::protocol
