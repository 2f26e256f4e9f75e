#pragma once
// A parsed HTTP request, and a response to be written.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/api/endpoint.h"

namespace reprise::protocol {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// Compares case-insensitively; `lower` must be in lower case.
bool same_name(std::string_view text, std::string_view lower);

struct HttpRequest {
  std::string method;
  std::string path;     // target without the query
  std::string query{};  // after '?'
  unsigned minor_version = 1;
  bool keep_alive = false;
  bool expects_continue = false;
  Headers headers{};  // names in lower case, in order of arrival
  std::string body{};

  /// Returns the first header with that name (lower case), or empty.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string_view content_type = "application/json";  // a literal; empty: no Content-Type
  std::string body{};
  Headers headers{};
};

HttpResponse json_response(std::string body, int status = 200);
/// Returns the error in the dialect's format, with a Retry-After header if the error has one.
HttpResponse error_response(const Error& error, const Dialect& dialect);

enum class Framing : std::uint8_t {
  kLength,   // Content-Length: body.size()
  kChunked,  // chunks, up to an empty one
  kClose,    // until the connection closes
};

/// Returns status line and headers, including the final empty line, with capacity reserved for the body.
/// `common` precedes the response's own headers.
std::string head_text(const HttpResponse& response, const Headers& common, Framing framing,
                      unsigned minor_version, bool keep_alive);

void append_chunk(std::string& out, std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace reprise::protocol
