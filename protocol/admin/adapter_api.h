#pragma once
// Adapters by request, for who operates the server:
//   GET  /admin/adapters           those that are there, and those that could not be loaded
//   POST /admin/adapters/load      {"name": NAME, "model": MODEL, "path": PATH}
//   POST /admin/adapters/unload    {"name": NAME, "model": MODEL}
// Without `model` the first is meant, without `path` an adapter of the configuration. Where there are keys, an
// operator's is needed.
//
// Threading: a pure function.

#include <vector>

#include "protocol/api/endpoint.h"

namespace reprise::protocol::admin {

std::vector<ApiRoute> adapter_routes();

}  // namespace reprise::protocol::admin
