#include "protocol/http/listener.h"

#include "protocol/http/log.h"
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
constexpr std::chrono::seconds kAbortTime{1};

}  // namespace

Listener::Listener(tcp::acceptor acceptor, std::shared_ptr<ServerContext> context)
    : acceptor_(std::move(acceptor)), context_(std::move(context)) {}

Task<void> Listener::accept() {
  while (!closing_) {
    if (open_.size() >= context_->options.connections) {  // newcomers wait in the system's backlog
      auto waiting = wait_for_closing(TimePoint::max());
      co_await waiting;
      continue;
    }
    auto accepting = acceptor_.async_accept(use_actor);
    Result<tcp::socket> socket = co_await accepting;
    if (closing_) break;
    if (!socket.ok()) {
      log_line(LogLevel::kError, "accept: " + socket.error().describe());
      auto pausing = runtime::sleep_for(kPauseAfterError);
      const Result<void> rested = co_await pausing;
      continue;
    }
    const auto connection =
        spawn<Connection>({.placement = runtime::Placement::near()}, std::move(*socket), context_);
    runtime::watch(*this, connection);
    open_.emplace(connection.id(), connection);
    context_->metrics.connections_changed(1);
  }
}

void Listener::on(runtime::Down down) {
  if (open_.erase(down.who) == 0) return;
  context_->metrics.connections_changed(-1);
  if (down.reason == runtime::StopReason::kFailed) {
    log_line(LogLevel::kError, "a connection failed: " + down.why);
  }
  if (change_) change_->cancel();
}

Task<void> Listener::wait_for_closing(TimePoint deadline) {
  change_.emplace();
  auto waiting = runtime::sleep_until(deadline, change_->token());
  const Result<void> waited = co_await waiting;
}

Task<bool> Listener::on(CloseServer close) {
  closing_ = true;
  context_->draining = true;
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  if (change_) change_->cancel();

  const TimePoint patience_ends = runtime::deadline_after(close.patience);
  for (const auto& [id, connection] : open_) connection.tell(FinishConnection{});
  while (!open_.empty() && Clock::now() < patience_ends) {
    auto waiting = wait_for_closing(patience_ends);
    co_await waiting;
  }
  const TimePoint end = runtime::deadline_after(kAbortTime);
  for (const auto& [id, connection] : open_) connection.tell(AbortConnection{});
  while (!open_.empty() && Clock::now() < end) {
    auto waiting = wait_for_closing(end);
    co_await waiting;
  }
  co_return open_.empty();
}

}  // namespace reprise::protocol
