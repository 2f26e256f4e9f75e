#pragma once
// The operator's API. If there are keys, it needs an operator's key, except for a tenant's view of its own
// cache.
//
//   GET  /admin/adapters         loaded adapters, and those that failed to load
//   POST /admin/adapters/load    {"name": NAME, "model": MODEL, "path": PATH}
//   POST /admin/adapters/unload  {"name": NAME, "model": MODEL}
//                                Defaults: the first model; the path of the configured adapter of that name.
//   GET  /v1/cache               the tree of prompts with its snapshots, their sizes, and why others were
//                                missed: lengths and positions, never text. A tenant sees its own, an
//                                operator all.
//   POST /v1/cache/drop          {"model": NAME}: drops its snapshots on the device
//   POST /v1/models/load         {"model": NAME}: a configured name; requests cannot pass paths
//   POST /v1/models/unload       {"model": NAME}
//   GET  /admin/trace            whether a trace is being recorded, and its file, which the operator chooses
//                                (reprise serve --trace), never the client
//   POST /admin/trace/start      no body; refused for pages of other sites (protocol/http/gate.h)
//   POST /admin/trace/stop       likewise
//
// The interfaces, the sessions and what `scope_of` uses must outlive the server.

#include <functional>
#include <string_view>
#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/server_admin.h"
#include "traces/session_control.h"

namespace reprise::protocol::admin {

std::vector<ApiRoute> adapter_routes();

/// Most tree nodes in one answer, all models together.
inline constexpr std::uint32_t kMaxViewedNodes = 2000;

/// Returns what a tenant may see. Called from any thread.
using ScopeOf = std::function<CacheScope(std::string_view tenant)>;

std::vector<ApiRoute> cache_routes(ServerAdmin& server_admin, ScopeOf scope_of);

std::vector<ApiRoute> model_routes(ServerAdmin& server_admin);

std::vector<ApiRoute> trace_routes(traces::SessionControl& sessions);

}  // namespace reprise::protocol::admin
