#pragma once
// Accepts connections and knows those that are open.
//
// Threading: an actor on the server's loop.

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <unordered_map>

#include "protocol/http/connection.h"
#include "protocol/http/server_context.h"
#include "runtime/actor.h"
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
  runtime::Task<void> accept();
  /// Until none is open, or the time is up; or, for accept(), until one has closed.
  runtime::Task<void> wait_for_closing(runtime::TimePoint deadline);

  boost::asio::ip::tcp::acceptor acceptor_;
  const std::shared_ptr<ServerContext> context_;
  std::unordered_map<runtime::ActorId, runtime::RefOf<Connection>> open_;
  bool closing_ = false;
  std::optional<runtime::CancelSource> change_;  // somebody waits for a connection to close
};

}  // namespace reprise::protocol
