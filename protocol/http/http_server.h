#pragma once
// The HTTP server: exposes APIs (protocol/api/endpoint.h) of a Service. To follow a request, read
// http_server.cc (listener and connections), then exchange.h and generation.h.
//
//   IoLoop loop;
//   System system;
//   HttpServer server(system, loop, service, options, all_apis());  // listens from here on
//   server.stop(8s);
//   system.stop();
//
// The service must outlive stop().
//
// Threading: construct and stop it from a thread that runs no actor; everything else happens on the loop.

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "protocol/api/endpoint.h"
#include "protocol/http/http_options.h"
#include "protocol/service.h"
#include "runtime/system.h"

namespace reprise::protocol {

/// An io_context and the one thread that runs it: the executor of a server's sockets and connections.
///
/// Must be made before the actor system that uses it, and outlive its stop.
class IoLoop {
 public:
  IoLoop();
  ~IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  boost::asio::io_context& context() { return context_; }

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

/// Listening on the address failed; what() has the address and the reason.
class ListenError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class HttpServer {
 public:
  /// Starts listening. Throws ListenError.
  HttpServer(runtime::System& system, IoLoop& loop, Service& service, HttpOptions options, ApiTable apis);
  ~HttpServer();  // stop() without patience, unless already stopped

  std::uint16_t port() const { return port_; }
  const std::string& url() const { return url_; }

  /// Stops accepting, lets running answers continue for `patience`, then aborts them. Returns true if all
  /// connections closed.
  bool stop(std::chrono::milliseconds patience);

 private:
  struct Listening;
  std::unique_ptr<Listening> listening_;
  std::uint16_t port_ = 0;
  std::string url_;
};

}  // namespace reprise::protocol
