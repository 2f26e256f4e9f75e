#pragma once
// The socket of one connection as an actor sees it: bytes that came in, and a way to write.
//
// A pump reads all the time, also while an answer is being written, so that a client that goes away is
// noticed at once: the token gone() is cancelled then. What it read waits in inflow(), up to a limit; over it
// the pump rests until some was consumed. Reads are never cancelled, so no byte is lost between two requests.
//
// Threading: the actor that owns it. The socket's io_context must be that actor's home and have one thread.

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/cancel.h"
#include "runtime/task.h"
#include "runtime/ticks.h"

namespace reprise::protocol {

class Wire {
 public:
  Wire(boost::asio::ip::tcp::socket socket, std::size_t inflow_limit,
       std::chrono::milliseconds write_timeout);

  /// To be launched once; ends when the client has closed its side, or the connection is broken.
  runtime::Task<void> pump();

  std::string_view inflow() const { return inflow_; }
  void consume(std::size_t bytes);
  /// Waits until more has come in; false: nothing will, or not by the deadline, or interrupt() was called.
  runtime::Task<bool> more(runtime::TimePoint deadline);
  /// Ends a wait in more().
  void interrupt();

  /// False: the connection is broken, the client took nothing for too long, or `cancel` was cancelled.
  runtime::Task<bool> write(std::string bytes, runtime::CancelToken cancel);

  /// Ends our side, then reads for `patience` what the client still sends, so that it sees our last answer
  /// and not a reset.
  runtime::Task<void> close_gently(std::chrono::milliseconds patience);

  bool client_closed() const { return ended_; }
  /// Cancels gone() though the client is there, for a server that cannot wait any longer.
  void give_up() { gone_.cancel(); }
  runtime::CancelToken gone() const { return gone_.token(); }
  std::uint64_t bytes_written() const { return written_; }

 private:
  void wake();

  boost::asio::ip::tcp::socket socket_;
  const std::size_t inflow_limit_;
  const std::chrono::milliseconds write_timeout_;
  std::array<char, 8192> chunk_;
  std::string inflow_;
  bool ended_ = false;
  bool discarding_ = false;  // close_gently() throws away what comes
  std::uint64_t written_ = 0;
  runtime::CancelSource gone_;
  std::optional<runtime::CancelSource> input_wanted_;
  std::optional<runtime::CancelSource> room_wanted_;
};

}  // namespace reprise::protocol
