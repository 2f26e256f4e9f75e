#pragma once
// The HTTP server's address, admission and limits.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/api/body_limits.h"
#include "protocol/http/key_ring.h"

namespace reprise::protocol {

struct HttpOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: chosen by the system
  std::string server_name = "reprise";

  std::size_t header_bytes = 16u << 10;
  std::size_t body_bytes = 32u << 20;
  std::size_t bodies_bytes = 256u << 20;      // all bodies not parsed yet; at least one body
  std::size_t inline_body_bytes = 64u << 10;  // larger bodies are parsed off the server's loop
  std::size_t pipelined_bytes = 64u << 10;    // buffered of further requests while one is answered
  std::uint32_t connections = 1024;           // idle ones are closed for newcomers
  std::uint32_t reserved_connections = 16;    // in addition, for health and metrics when all are busy
  std::uint32_t requests = 512;               // generated at once; more are refused with 429

  std::chrono::milliseconds idle_timeout{75'000};         // between requests
  std::chrono::milliseconds header_timeout{15'000};       // first byte of a request to the end of its head
  std::chrono::milliseconds body_timeout{30'000};         // plus 1 s per 64 KiB received,
  std::chrono::milliseconds body_total_timeout{120'000};  // at most this
  std::chrono::milliseconds write_timeout{60'000};        // maximum time without the client accepting a byte
  std::chrono::milliseconds sse_keep_alive{10'000};       // maximum silence in a stream
  std::size_t sse_batch_bytes = 32u << 10;  // pending events merged into one write; 0: one write per event

  std::vector<std::string> cors_origins{"localhost"};  // "*": all; "localhost": this machine's
  std::vector<std::string> allowed_hosts{};            // accepted Host names when there are no keys (gate.h)
  bool front_page = true;                              // serve the web page at /
  KeyRing keys{};                                      // empty: no key is required
  BodyLimits request{};
};

}  // namespace reprise::protocol
