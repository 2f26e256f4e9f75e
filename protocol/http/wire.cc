#include "protocol/http/wire.h"

#include <boost/asio/buffer.hpp>

#include "runtime/asio.h"
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

Wire::Wire(tcp::socket socket, std::size_t inflow_limit, std::chrono::milliseconds write_timeout)
    : socket_(std::move(socket)), inflow_limit_(inflow_limit), write_timeout_(write_timeout) {
  error_code ignored;  // a socket that cannot do these is broken, and reading will say so
  socket_.non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
}

Task<void> Wire::pump() {
  while (true) {
    if (inflow_.size() >= inflow_limit_) {
      room_wanted_.emplace();
      auto resting = runtime::sleep_until(TimePoint::max(), room_wanted_->token());
      const Result<void> rested = co_await resting;
      continue;
    }
    auto reading = socket_.async_read_some(asio::buffer(chunk_), use_actor);
    const Result<std::size_t> count = co_await reading;
    if (!count.ok()) break;
    if (!discarding_) inflow_.append(chunk_.data(), *count);
    wake();
  }
  ended_ = true;
  wake();
  gone_.cancel();
}

void Wire::wake() {
  if (input_wanted_) input_wanted_->cancel();
}

void Wire::consume(std::size_t bytes) {
  inflow_.erase(0, bytes);
  if (room_wanted_ && inflow_.size() < inflow_limit_) {
    const runtime::CancelSource resting = *room_wanted_;
    room_wanted_.reset();
    runtime::CancelSource(resting).cancel();
  }
}

Task<bool> Wire::more(TimePoint deadline) {
  if (ended_) co_return false;
  const std::size_t had = inflow_.size();
  input_wanted_.emplace();
  auto waiting = runtime::sleep_until(deadline, input_wanted_->token());
  const Result<void> waited = co_await waiting;
  input_wanted_.reset();
  co_return !waited.ok() && inflow_.size() > had;
}

void Wire::interrupt() {
  wake();
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
    const TimePoint deadline = runtime::deadline_after(write_timeout_);
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
  discarding_ = true;
  consume(inflow_.size());
  while (!error && !ended_ && runtime::Clock::now() < deadline) {
    auto waiting = more(deadline);
    const bool came = co_await waiting;
    static_cast<void>(came);
  }
}

}  // namespace reprise::protocol
