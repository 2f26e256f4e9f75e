#pragma once
// What whoever operates the server can ask of it. Where there are keys, an operator's is needed, but for a tenant's view of
// its own cache.
//
//   GET  /admin/adapters           those that are there, and those that could not be loaded
//   POST /admin/adapters/load      {"name": NAME, "model": MODEL, "path": PATH}
//   POST /admin/adapters/unload    {"name": NAME, "model": MODEL}
//                                  Without `model` the first is meant, without `path` an adapter of the configuration.
//   GET  /v1/cache         the tree of prompts with its snapshots, what they hold, and why others were not found:
//                          lengths and places, never text. A tenant sees its own, an operator everybody's.
//   POST /v1/cache/drop    {"model": NAME}: its snapshots on the device go
//   POST /v1/models/load   {"model": NAME}, of the configuration, by the name that it has there: a request brings no paths
//   POST /v1/models/unload
//   GET  /admin/trace           whether a trace is being recorded, and into which file: it is the operator's (reprise serve
//                               --trace), never the client's
//   POST /admin/trace/start     without a body. Pages of other sites may not start or stop one (protocol/http/gate.h).
//   POST /admin/trace/stop
//
// Threading: pure functions; the desk, the sessions and what `scope_of` uses must outlive the server.

#include <functional>
#include <string_view>
#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/server_desk.h"
#include "traces/session_control.h"

namespace reprise::protocol::admin {

std::vector<ApiRoute> adapter_routes();

/// Of nodes that one answer has, of all models together.
inline constexpr std::uint32_t kMostViewedNodes = 2000;

/// What a tenant may see, by its name; any thread.
using ScopeOf = std::function<CacheScope(std::string_view tenant)>;

std::vector<ApiRoute> cache_routes(ServerDesk& desk, ScopeOf scope_of);

std::vector<ApiRoute> model_routes(ServerDesk& desk);

std::vector<ApiRoute> trace_routes(traces::SessionControl& sessions);

}  // namespace reprise::protocol::admin
