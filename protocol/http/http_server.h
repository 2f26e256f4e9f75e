#pragma once
// The HTTP server: APIs (protocol/api/endpoint.h) in front of a Service. Start reading here; then
// http_server.cc (its listener and its connections), exchange.h and generation.h are the way of a request.
//
//   IoLoop loop;
//   System system;
//   HttpServer server(system, loop, service, options, all_apis());     listens from here on
//   server.stop(8s);
//   system.stop();
//
// The service must outlive stop().
//
// Threading: made and stopped by a thread that is no actor's; everything else happens on the loop.

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

/// An io_context with the one thread that runs it: where a server's sockets and connections live. Any thread.
///
/// Must be made before the actor system that uses it, and outlive its stop.
class IoLoop {
 public:
  IoLoop();
  /// Stops the loop and joins its thread.
  ~IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  boost::asio::io_context& context() { return context_; }

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

/// The address cannot be listened on; what() says which and why.
class ListenError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class HttpServer {
 public:
  /// Throws ListenError.
  HttpServer(runtime::System& system, IoLoop& loop, Service& service, HttpOptions options, ApiTable apis);
  ~HttpServer();  // stop() without patience, if that was not done

  std::uint16_t port() const { return port_; }
  /// "http://127.0.0.1:8080/"
  const std::string& url() const { return url_; }

  /// Stops accepting, lets answers go on for `patience` and then breaks them off. Whether all connections
  /// closed.
  bool stop(std::chrono::milliseconds patience);

 private:
  struct Listening;
  std::unique_ptr<Listening> listening_;
  std::uint16_t port_ = 0;
  std::string url_;
};

}  // namespace reprise::protocol
