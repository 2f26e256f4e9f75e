#pragma once
// Tracing by request: GET /admin/trace tells whether a trace is being recorded and into which file; POST
// /admin/trace/start and /admin/trace/stop, without a body, change that. The file is the operator's (reprise serve
// --trace), never the client's. Where there are keys, an operator's is needed; pages of other sites may not start or stop
// one (protocol/http/gate.h).
//
// Threading: a pure function; `sessions` must outlive the server.

#include <vector>

#include "protocol/api/endpoint.h"
#include "traces/session_control.h"

namespace reprise::protocol::admin {

std::vector<ApiRoute> trace_routes(traces::SessionControl& sessions);

}  // namespace reprise::protocol::admin
