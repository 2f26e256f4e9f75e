#pragma once
// The server's own pages: read from published figures, they never wait for the engine.
//
// Threading: the server's loop.

#include "protocol/http/message.h"
#include "protocol/http/routes.h"
#include "protocol/http/server_context.h"

namespace reprise::protocol {

/// Requires a route to a page.
HttpResponse page_answer(const Route& route, const HttpRequest& request, ServerContext& context);

}  // namespace reprise::protocol
