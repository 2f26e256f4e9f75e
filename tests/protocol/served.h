#pragma once
// A server in front of a FakeService, for tests over real sockets.

#include "protocol/apis.h"
#include "protocol/http/http_server.h"
#include "protocol/http/log.h"
#include "runtime/system.h"
#include "tests/eventually.h"
#include "tests/protocol/fake_service.h"
#include "tools/lab/bench/http_client.h"

namespace reprise::protocol {

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
