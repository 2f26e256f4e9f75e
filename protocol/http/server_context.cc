#include "protocol/http/server_context.h"

#include <algorithm>
#include <random>
#include <string_view>

namespace reprise::protocol {

ServerContext::ServerContext(HttpOptions given, ApiTable apis, Service& engine, runtime::System& actors,
                             runtime::ExecutorPtr loop)
    : options(std::move(given)),
      routes(std::move(apis), options.front_page),
      service(engine),
      system(actors),
      executor(std::move(loop)),
      bodies(actors, options.inline_body_bytes, options.request),
      body_budget(std::max(options.bodies_bytes, options.body_bytes)) {}

std::string new_id() {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::random_device device;  // the system's: its outputs do not reveal later ones
  std::string text;
  for (int word = 0; word < 4; ++word) {
    for (unsigned bits = device(), i = 0; i < 8; ++i, bits >>= 4) text += kHex[bits & 15];
  }
  return text;
}

Error server_busy(std::string message) {
  return {.kind = ErrorKind::kUnavailable,
          .message = std::move(message),
          .retry_after = std::chrono::seconds(1),
          .code = "server_busy"};
}

Error shutting_down() {
  return {.kind = ErrorKind::kUnavailable, .message = "the server is shutting down", .code = "shutting_down"};
}

}  // namespace reprise::protocol
