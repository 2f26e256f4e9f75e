#pragma once
// Keeps web pages of other sites from using the server through a browser that reaches it.
//
// Without keys, every request is checked:
//   Host is an IP address, localhost, the name the server listens on, one of allowed_hosts, or the name of one of
//   cors_origins. A name that somebody else points at this machine (DNS rebinding) is none of these.
//   Origin, where there is one, is the server's own (the Host that was asked) or one that cors_origins lets in.
//   Sec-Fetch-Site, where there is no Origin, is not cross-site, unless the browser opens a page (a link was followed).
// With keys, a page of another site has none, and only operators' POSTs are checked:
//   Origin is the server's own or named in cors_origins; "localhost" and "*" there do not count.
//   Content-Type is application/json, which no form can send.

#include <optional>

#include "protocol/http/http_options.h"
#include "protocol/http/message.h"

namespace reprise::protocol {

/// Returns the error to send, or nullopt where the request may come from where it comes.
std::optional<ApiError> site_objection(const HttpRequest& request, const HttpOptions& options);

/// The same for a request that changes the server by an operator's word.
std::optional<ApiError> operator_site_objection(const HttpRequest& request, const HttpOptions& options);

}  // namespace reprise::protocol
