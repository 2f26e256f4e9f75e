#pragma once
// SocketCalls: the socket operations of a connection to a store. Tests replace them: an operation fails, is cut
// short, or answers what a test wants.
//
// Threading: one connection is used by one thread at a time; different ones by any.

#include <sys/types.h>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/outcome.h"

namespace reprise::protocol::snapshots {

class SocketCalls {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  static const std::shared_ptr<SocketCalls>& system();
  virtual ~SocketCalls() = default;

  /// Resolves the host and connects to its first address that answers before the deadline. Returns a
  /// non-blocking socket. The error says what went wrong.
  ///
  /// Names are resolved by threads of their own, because the resolver has no time limit. At most kMaxLookups
  /// lookups run in a process; beyond it, connecting fails.
  virtual Outcome<int, std::string> connect(const std::string& host, std::uint16_t port, Deadline deadline);
  virtual void close(int socket);
  /// As the system calls, without waiting: EAGAIN if nothing can be sent or received now. A closed connection
  /// is an error, not a signal.
  virtual ssize_t send(int socket, std::span<const char> bytes);
  virtual ssize_t receive(int socket, std::span<char> to);
  /// Waits until the socket is ready for `events` of poll(). Returns 0, or an errno (ETIMEDOUT at the
  /// deadline).
  virtual int wait(int socket, short events, Deadline deadline);

  static constexpr int kMaxLookups = 4;
};

}  // namespace reprise::protocol::snapshots
