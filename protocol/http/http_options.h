#pragma once
// What an HTTP server listens on, whom it lets in, and how much it takes from them.
//
// Threading: a plain value.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/api/body_limits.h"
#include "protocol/http/key_ring.h"

namespace reprise::protocol {

struct HttpOptions {
  std::string host = "127.0.0.1";       // an address or a name
  std::uint16_t port = 8080;            // 0 lets the system choose
  std::string server_name = "reprise";  // of the Server header

  std::size_t header_bytes = 16u << 10;
  std::size_t body_bytes = 32u << 20;         // of one request
  std::size_t bodies_bytes = 256u << 20;      // of all that are not parsed yet; at least one body
  std::size_t inline_body_bytes = 64u << 10;  // larger bodies are parsed away from the server's loop
  std::size_t pipelined_bytes = 64u << 10;    // of further requests, read while one is being answered
  std::uint32_t connections = 1024;           // of them those that wait for a request give way to newcomers
  std::uint32_t reserved_connections = 16;    // beside them, for health and metrics when all are busy
  std::uint32_t requests = 512;               // being generated at once; more are refused with 429

  std::chrono::milliseconds idle_timeout{75'000};  // between requests
  std::chrono::milliseconds header_timeout{
      15'000};                                     // from the first byte of a request to the end of its head
  std::chrono::milliseconds body_timeout{30'000};  // and one second more for each 64 KiB that came,
  std::chrono::milliseconds body_total_timeout{120'000};  // but never more than this
  std::chrono::milliseconds write_timeout{60'000};        // without a byte taken by the client
  std::chrono::milliseconds sse_keep_alive{10'000};       // without a byte written to a stream
  std::size_t sse_batch_bytes = 32u << 10;  // of events that wait already, in one write; 0: each by itself

  std::vector<std::string> cors_origins{"localhost"};  // "*" allows all, "localhost" those of this machine
  std::vector<std::string> allowed_hosts{};            // names in Host, where there are no keys (gate.h)
  bool front_page = true;                              // at /
  KeyRing keys{};                                      // empty: everybody is let in
  BodyLimits request{};
};

}  // namespace reprise::protocol
