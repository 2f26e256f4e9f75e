// `reprise serve`: the HTTP server.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::tools {

struct ServeOptions {
  std::string host = "127.0.0.1";         // an IPv4 or IPv6 address, or "localhost"
  std::uint16_t port = 8080;              // 0 lets the system choose
  std::chrono::seconds idle_timeout{30};  // to send a whole request or take a whole response
};

// Serves until SIGINT or SIGTERM and returns the exit status of the program: 0 after a signal, 1 when the
// address cannot be listened on. Logs go to stderr, first of all "listening on http://HOST:PORT/" with the
// real port.
//
// Runs on the calling thread and installs handlers for the two signals; call it once per process.
int serve(const ServeOptions& options);

}  // namespace reprise::tools
