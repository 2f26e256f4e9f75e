#pragma once
// A server in front of a FakeService, for tests over real sockets.

#include <chrono>
#include <functional>
#include <thread>

#include "protocol/apis.h"
#include "protocol/http/http_server.h"
#include "protocol/http/log.h"
#include "runtime/system.h"
#include "tests/protocol/fake_service.h"
#include "tools/bench/http_client.h"

namespace reprise::protocol {

/// Waits for what another thread brings about. Ten seconds at most.
inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct Served {
  explicit Served(HttpOptions options = {}, ApiTable apis = all_apis())
      : server(system, loop, service, on_any_port(std::move(options)), std::move(apis)) {
    set_log_level(LogLevel::kOff);
  }
  ~Served() {
    server.stop(std::chrono::milliseconds(0));
    eventually([this] { return service.live() == 0; });  // before the service goes
  }
  static HttpOptions on_any_port(HttpOptions options) {
    options.port = 0;
    return options;
  }
  std::uint16_t port() const { return server.port(); }

  IoLoop loop;
  runtime::System system{{.workers = 2}};
  FakeService service{system};
  HttpServer server;
};

}  // namespace reprise::protocol
