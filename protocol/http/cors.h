#pragma once
// Cross-origin requests: which pages of other origins may read our answers.
//
// Threading: pure functions.

#include <string>
#include <string_view>
#include <vector>

#include "protocol/http/message.h"

namespace reprise::protocol {

/// Whether pages of this origin may use the server: it is listed, or "*" is, or "localhost" and it is of this machine.
bool cors_allows(std::string_view origin, const std::vector<std::string>& allowed_origins);

/// The headers that every response to this request gets; none where its origin is not allowed.
Headers cors_headers(const HttpRequest& request, const std::vector<std::string>& allowed_origins);

/// Whether a browser asks what it may send.
bool is_preflight(const HttpRequest& request);
/// The answer to that; the origin's own headers come from cors_headers().
HttpResponse preflight_response(const HttpRequest& request, const std::string& allowed_methods);

}  // namespace reprise::protocol
