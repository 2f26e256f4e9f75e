#pragma once
// Decides whether a request is admitted, and for which tenant, from its head, before its body is read.
//
// Web pages of other sites must not use the server through a visitor's browser. Without keys, every request
// is checked:
// - Host must be an IP address, localhost, the name the server listens on, one of allowed_hosts, or the host
//   of one of cors_origins. This stops DNS rebinding.
// - Origin, if present, must be the server's own (matching Host) or allowed by cors_origins.
// - Sec-Fetch-Site, if there is no Origin, must not be cross-site, unless the browser navigates to a page.
//
// With keys, pages of other sites lack one, so only POSTs to operator routes are checked:
// - Origin must be the server's own or listed in cors_origins; "localhost" and "*" there do not count.
// - Content-Type must be application/json, which no HTML form can send.
//
// Threading: the server's loop; the functions about origins are pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/http/message.h"
#include "protocol/http/server_context.h"

namespace reprise::protocol {

/// The class of a connection. Reserve connections, opened when all regular ones are busy, serve only health
/// and metrics.
enum class Seat : std::uint8_t { kRegular, kReserve };

struct Admission {
  const Route& route;    // owned by the route table
  const Tenant& tenant;  // without keys: the anonymous tenant; without a valid key: one with an empty name
  std::optional<Error> rejection{};  // the error to send; empty: admitted
};
Admission admission_of(const HttpRequest& request, Seat seat, const ServerContext& context);

// -- cross-origin requests (CORS): which other origins' pages may read the responses

/// Returns the CORS headers for the response to this request; empty if its origin is not allowed.
Headers cors_headers(const HttpRequest& request, const std::vector<std::string>& allowed_origins);

bool is_preflight(const HttpRequest& request);
/// Returns the answer to a preflight; cors_headers() adds the headers for its origin.
HttpResponse preflight_response(const HttpRequest& request, const std::string& allowed_methods);

}  // namespace reprise::protocol
