#pragma once
// The socket of one connection as its actor sees it: received bytes, and a way to write.
//
// A pump reads all the time, even while an answer is being written, so that a disconnect is noticed at once:
// it cancels the token gone(). A client that shuts down its sending side counts as disconnected, because the
// two cannot be distinguished.
//
// Received bytes are buffered in inflow(), up to a limit. While a request is being read, the pump pauses at
// the limit until bytes are consumed. While a request is being answered it cannot pause, or it would not see
// the end of the input: beyond the limit it discards input, overrun() returns true, and the connection must
// be closed after the answer. A client from which more than `flood` bytes are discarded counts as
// disconnected. Reads are never canceled, so no byte is lost between two requests.
//
// Threading: the owning actor. The socket's io_context must be that actor's executor and have one thread.

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/cancel.h"
#include "runtime/detail/ticks.h"
#include "runtime/event.h"
#include "runtime/task.h"

namespace reprise::protocol {

struct WireLimits {
  std::size_t inflow = 0;                     // most unconsumed bytes buffered
  std::size_t flood = 0;                      // most bytes discarded before the client counts as disconnected
  std::chrono::milliseconds write_timeout{};  // maximum time in which the client accepts no byte
};

class Wire {
 public:
  Wire(boost::asio::ip::tcp::socket socket, const WireLimits& limits);

  /// Launch once. Ends when the client has closed its side or the connection is broken.
  runtime::Task<void> pump();

  std::string_view inflow() const { return inflow_; }
  void consume(std::size_t bytes);
  /// Waits for more input. Returns false if none will come, at the deadline, or on interrupt().
  runtime::Task<bool> more(runtime::TimePoint deadline);
  void interrupt();

  /// From here to end_answer(), consume() must not be called.
  void begin_answer();
  void end_answer() { answering_ = false; }
  /// Returns true if input was discarded, so that what follows cannot be parsed as a request.
  bool overrun() const { return discarded_ > 0; }

  /// Returns false if the connection is broken, the client accepted nothing for write_timeout, or `cancel`
  /// was canceled.
  runtime::Task<bool> write(std::string bytes, runtime::CancelToken cancel);

  /// Closes the sending side, then discards input for up to `patience`, so that the client receives the last
  /// answer rather than a reset.
  runtime::Task<void> close_gently(std::chrono::milliseconds patience);
  /// Ends a pending more() or close_gently(), and every later one.
  void hurry();

  bool client_closed() const { return ended_; }
  /// Cancels gone() although the client is connected, when the server must abort the exchange.
  void give_up() { gone_.cancel(); }
  runtime::CancelToken gone() const { return gone_.token(); }
  std::uint64_t bytes_written() const { return written_; }

 private:
  void keep_or_discard(std::string_view bytes);

  boost::asio::ip::tcp::socket socket_;
  const WireLimits limits_;
  std::array<char, 8192> chunk_;
  std::string inflow_;
  bool ended_ = false;
  bool answering_ = false;
  bool closing_ = false;
  bool hurried_ = false;
  std::uint64_t discarded_ = 0;
  std::uint64_t written_ = 0;
  runtime::CancelSource gone_;
  runtime::Event input_;     // input arrived or ended, or a wait is interrupted
  runtime::Event capacity_;  // the pump may read again: below the limit, or answering
};

}  // namespace reprise::protocol
