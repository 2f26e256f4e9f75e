#pragma once
// The answers to GET requests: read from published figures, they never wait for the engine.
//
// Threading: the server's loop.

#include "protocol/http/message.h"
#include "protocol/http/server_context.h"

namespace reprise::protocol {

/// Requires a route that takes GET.
HttpResponse plain_answer(Route route, const HttpRequest& request, ServerContext& context);

}  // namespace reprise::protocol
