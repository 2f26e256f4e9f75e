#pragma once
// Who a request comes from, and whether it is let in: judged by its head, before its body is read.
//
// Web pages of other sites are kept from using the server through a browser that reaches it. Without keys, every request
// is checked:
//   Host is an IP address, localhost, the name the server listens on, one of allowed_hosts, or the name of one of
//   cors_origins. A name that somebody else points at this machine (DNS rebinding) is none of these.
//   Origin, where there is one, is the server's own (the Host that was asked) or one that cors_origins lets in.
//   Sec-Fetch-Site, where there is no Origin, is not cross-site, unless the browser opens a page (a link was followed).
// With keys, a page of another site has none, and only operators' POSTs are checked:
//   Origin is the server's own or named in cors_origins; "localhost" and "*" there do not count.
//   Content-Type is application/json, which no form can send.
//
// Threading: the server's loop; what is about origins are pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/http/message.h"
#include "protocol/http/server_context.h"

namespace reprise::protocol {

/// What a connection is for. In the reserve, which is for times when all others are busy, health and metrics
/// are answered and nothing else.
enum class Seat : std::uint8_t { kRegular, kReserve };

/// What is decided of a request, once.
struct Admission {
  const Route& route;  // the table's
  const Tenant&
      tenant;  // everybody is one where there are no keys; one without a name where no valid key came
  std::optional<ApiError> objection{};  // why it is not let in
};
Admission admission_of(const HttpRequest& request, Seat seat, const ServerContext& context);

// -- cross-origin requests: which pages of other origins may read our answers

/// The headers that every response to this request gets; none where its origin is not allowed.
Headers cors_headers(const HttpRequest& request, const std::vector<std::string>& allowed_origins);

/// Whether a browser asks what it may send.
bool is_preflight(const HttpRequest& request);
/// The answer to that; the origin's own headers come from cors_headers().
HttpResponse preflight_response(const HttpRequest& request, const std::string& allowed_methods);

}  // namespace reprise::protocol
