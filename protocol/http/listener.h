#pragma once
// Accepts connections and knows those that are open.
//
// A newcomer is seated, in this order: on a free regular seat; on that of a request that comes slowly, which is closed,
// where one network sends many (sender_list.h); on that of the connection that has waited longest for a request; on that of
// any request that still comes; in the reserve; on the seat of who waits longest there. Only when all are busy it has to
// wait, and those behind it wait in the system's backlog.
//
// Threading: an actor on the server's loop.

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <unordered_map>

#include "protocol/http/connection.h"
#include "protocol/http/server_context.h"
#include "runtime/actor.h"
#include "runtime/event.h"
#include "runtime/supervision.h"

namespace reprise::protocol {

/// Stop accepting; let what is being answered go on for `patience`, then break it off. Answers whether every
/// connection has been closed.
struct CloseServer {
  using Reply = bool;
  runtime::Duration patience;
};

class Listener : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<CloseServer, runtime::Down>;
  static constexpr const char* kName = "http listener";
  static constexpr std::uint32_t kConcurrentHandlers = 4;

  Listener(boost::asio::ip::tcp::acceptor acceptor, std::shared_ptr<ServerContext> context);

  void on_start() { launch(accept()); }
  void on(runtime::Down down);
  runtime::Task<bool> on(CloseServer close);

 private:
  struct Open {
    runtime::RefOf<Connection> connection;
    Seat seat;
  };

  runtime::Task<void> accept();
  /// Where a newcomer may sit; nothing while all are busy. One that gives way is gone some turns later, so
  /// until then there is one more than there may be.
  std::optional<Seat> free_seat();
  /// Until none is open, or the time is up; or, for accept(), until one has closed.
  runtime::Task<void> wait_for_closing(runtime::TimePoint deadline);

  boost::asio::ip::tcp::acceptor acceptor_;
  const std::shared_ptr<ServerContext> context_;
  std::unordered_map<runtime::ActorId, Open> open_;
  std::uint32_t in_reserve_ = 0;  // of open_
  bool closing_ = false;
  runtime::Event change_;  // a connection has closed, or the server begins to
};

}  // namespace reprise::protocol
