#pragma once
// The cache by request:
//   GET  /v1/cache         the tree of prompts with its snapshots, what they hold, and why others were not found:
//                          lengths and places, never text. A tenant sees its own, an operator everybody's.
//   POST /v1/cache/drop    {"model": NAME}: its snapshots on the device go. Where there are keys, an operator's is needed.
//
// Threading: a pure function; `desk` and what `scope_of` uses must outlive the server.

#include <functional>
#include <string_view>
#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/server_desk.h"

namespace reprise::protocol::admin {

/// Of nodes that one answer has, of all models together.
inline constexpr std::uint32_t kMostViewedNodes = 2000;

/// What a tenant may see, by its name; any thread.
using ScopeOf = std::function<CacheScope(std::string_view tenant)>;

std::vector<ApiRoute> cache_routes(ServerDesk& desk, ScopeOf scope_of);

}  // namespace reprise::protocol::admin
