#pragma once
// Requests that change the server may not come from pages of other sites. A browser sends such a page's requests with
// whatever the network lets through, so that it is the server that has to tell:
//   Origin, where there is one, is that of the server itself (the Host that was asked) or one of cors_origins by its
//   name; "localhost" and "*" there do not count. Sec-Fetch-Site says the same where a browser sends it.
//   Host is an address, localhost, the name that the server listens on, or that of one of cors_origins, so that
//   no name that somebody else points at this machine is taken for it (DNS rebinding). Where there are keys this is not
//   asked: such a page has none.
//   Content-Type is application/json, which no form can send.
//
// Threading: a pure function.

#include <optional>

#include "protocol/http/http_options.h"
#include "protocol/http/message.h"

namespace reprise::protocol {

/// Why not; nothing where it may.
std::optional<ApiError> site_objection(const HttpRequest& request, const HttpOptions& options);

}  // namespace reprise::protocol
