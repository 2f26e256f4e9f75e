#include "protocol/http/wire.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>

#include "runtime/interop/asio.h"
#include "runtime/wait.h"

namespace reprise::protocol {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using runtime::CancelToken;
using runtime::Result;
using runtime::Task;
using runtime::TimePoint;
using runtime::use_actor;

Wire::Wire(tcp::socket socket, const WireLimits& limits) : socket_(std::move(socket)), limits_(limits) {
  error_code ignored;  // if these fail, the socket is broken and reading reports it
  socket_.non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
}

Task<void> Wire::pump() {
  while (discarded_ <= limits_.flood) {
    const bool may_rest = !answering_ && !closing_;
    if (may_rest && inflow_.size() >= limits_.inflow) {
      auto resting = capacity_.wait();
      const Result<void> rested = co_await resting;
      continue;
    }
    auto reading = socket_.async_read_some(asio::buffer(chunk_), use_actor);
    const Result<std::size_t> count = co_await reading;
    if (!count.ok()) break;
    keep_or_discard({chunk_.data(), *count});
    input_.signal();
  }
  ended_ = true;
  input_.signal();
  gone_.cancel();
}

void Wire::keep_or_discard(std::string_view bytes) {
  std::size_t kept = bytes.size();
  if (closing_ || overrun()) {
    kept = 0;  // after a gap, the rest of a request would be parsed as a new one
  } else if (answering_) {
    kept = std::min(kept, limits_.inflow - std::min(inflow_.size(), limits_.inflow));
  }
  inflow_.append(bytes.substr(0, kept));
  discarded_ += bytes.size() - kept;
}

void Wire::consume(std::size_t bytes) {
  inflow_.erase(0, bytes);
  if (inflow_.size() < limits_.inflow) capacity_.signal();
}

void Wire::begin_answer() {
  answering_ = true;
  capacity_.signal();
}

Task<bool> Wire::more(TimePoint deadline) {
  if (ended_) co_return false;
  const std::size_t had = inflow_.size();
  auto waiting = input_.wait(deadline);
  const Result<void> woken = co_await waiting;
  co_return woken.ok() && inflow_.size() > had;
}

void Wire::interrupt() {
  input_.signal();
}

void Wire::hurry() {
  hurried_ = true;
  input_.signal();
}

Task<bool> Wire::write(std::string bytes, CancelToken cancel) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    error_code error;
    const std::size_t count =
        socket_.write_some(asio::buffer(bytes.data() + sent, bytes.size() - sent), error);
    sent += count;
    written_ += count;
    if (!error) continue;
    if (error != asio::error::would_block && error != asio::error::try_again) co_return false;
    const TimePoint deadline = runtime::deadline_after(limits_.write_timeout);
    auto waiting = socket_.async_wait(tcp::socket::wait_write, use_actor.with(deadline, cancel));
    const Result<void> ready = co_await waiting;
    if (!ready.ok()) co_return false;
  }
  co_return true;
}

Task<void> Wire::close_gently(std::chrono::milliseconds patience) {
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  const TimePoint deadline = runtime::deadline_after(patience);
  closing_ = true;
  consume(inflow_.size());
  while (!error && !ended_ && !hurried_ && runtime::Clock::now() < deadline) {
    auto waiting = more(deadline);
    const bool came = co_await waiting;
    static_cast<void>(came);
  }
}

}  // namespace reprise::protocol
