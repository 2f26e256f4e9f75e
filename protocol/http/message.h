#pragma once
// A request as it was read, a response as it will be written.
//
// Threading: plain values and pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/api/endpoint.h"

namespace reprise::protocol {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// Whether they differ in nothing but the case of letters; `lower` has none in upper case.
bool same_name(std::string_view text, std::string_view lower);

struct HttpRequest {
  std::string method;   // "GET"
  std::string path;     // the target without query
  std::string query{};  // behind its '?'
  unsigned minor_version = 1;
  bool keep_alive = false;
  bool expects_continue = false;
  Headers headers{};  // names in lower case, in the order they came
  std::string body{};

  /// Of the first header with that name, in lower case; empty where there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string_view content_type = "application/json";  // a literal; empty: none
  std::string body{};
  Headers headers{};
};

HttpResponse json_response(std::string body, int status = 200);
/// As the dialect tells it, with Retry-After where the error has one.
HttpResponse error_response(const ApiError& error, const Dialect& dialect);

/// How a body is delimited.
enum class Framing : std::uint8_t {
  kLength,   // Content-Length: body.size()
  kChunked,  // chunks, until an empty one
  kClose,    // until the connection is closed
};

/// Status line and headers of a response, up to the empty line, with room for the body behind them. `common`
/// comes before the response's own.
std::string head_text(const HttpResponse& response, const Headers& common, Framing framing,
                      unsigned minor_version, bool keep_alive);

void append_chunk(std::string& out, std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace reprise::protocol
