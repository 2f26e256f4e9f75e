#pragma once
// The HTTP server: APIs (protocol/api/endpoint.h) in front of a Service. Start reading here; then
// protocol/http/connection.h, exchange.h, api_answer.h and generation.h are the way of a request.
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

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "protocol/api/endpoint.h"
#include "protocol/http/http_options.h"
#include "protocol/http/io_loop.h"
#include "protocol/service.h"
#include "runtime/system.h"

namespace reprise::protocol {

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
