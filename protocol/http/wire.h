#pragma once
// The socket of one connection as an actor sees it: bytes that came in, and a way to write.
//
// A pump reads all the time, also while an answer is being written, so that a client that goes away is
// noticed at once: the token gone() is cancelled then. The end of what a client sends counts as its going,
// for nothing tells one that only closed its sending side from one that vanished.
//
// What was read waits in inflow(), up to a limit. While a request is being read the pump rests over it until
// some was consumed. While one is being answered it cannot rest, for the end of the input lies behind all
// that was sent: from the limit on it throws away what comes, overrun() says so, and the connection is to be
// closed when the answer is out. A client that sends more than `flood` bytes for nothing counts as gone.
// Reads are never cancelled, so no byte is lost between two requests.
//
// Threading: the actor that owns it. The socket's io_context must be that actor's home and have one thread.

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/cancel.h"
#include "runtime/event.h"
#include "runtime/task.h"
#include "runtime/ticks.h"

namespace reprise::protocol {

struct WireLimits {
  std::size_t inflow = 0;                     // bytes that wait to be consumed
  std::size_t flood = 0;                      // bytes that are thrown away
  std::chrono::milliseconds write_timeout{};  // without a byte taken by the client
};

class Wire {
 public:
  Wire(boost::asio::ip::tcp::socket socket, const WireLimits& limits);

  /// To be launched once; ends when the client has closed its side, or the connection is broken.
  runtime::Task<void> pump();

  std::string_view inflow() const { return inflow_; }
  void consume(std::size_t bytes);
  /// Waits until more has come in; false: nothing will, or not by the deadline, or interrupt() was called.
  runtime::Task<bool> more(runtime::TimePoint deadline);
  /// Ends a wait in more().
  void interrupt();

  /// From here to end_answer() nobody consumes.
  void begin_answer();
  void end_answer() { answering_ = false; }
  /// Something was thrown away: what comes next cannot be read as a request.
  bool overrun() const { return discarded_ > 0; }

  /// False: the connection is broken, the client took nothing for too long, or `cancel` was cancelled.
  runtime::Task<bool> write(std::string bytes, runtime::CancelToken cancel);

  /// Ends our side, then reads for `patience` what the client still sends, so that it sees our last answer
  /// and not a reset.
  runtime::Task<void> close_gently(std::chrono::milliseconds patience);
  /// Ends a wait in more() or close_gently(), for good.
  void hurry();

  bool client_closed() const { return ended_; }
  /// Cancels gone() though the client is there, for a server that cannot wait any longer.
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
  bool closing_ = false;  // close_gently() throws away what comes
  bool hurried_ = false;
  std::uint64_t discarded_ = 0;
  std::uint64_t written_ = 0;
  runtime::CancelSource gone_;
  runtime::Event input_;  // something came in, or will not any more; or who waits for it is interrupted
  runtime::Event room_;   // the pump may go on
};

}  // namespace reprise::protocol
