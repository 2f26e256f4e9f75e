#pragma once
// Models by request, for who operates the server:
//   POST /v1/models/load      {"model": NAME}
//   POST /v1/models/unload    {"model": NAME}
// Those of the configuration, by the names that they have there: a request brings no paths. Where there are keys, an
// operator's is needed.
//
// Threading: a pure function; `desk` must outlive the server.

#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/server_desk.h"

namespace reprise::protocol::admin {

std::vector<ApiRoute> model_routes(ServerDesk& desk);

}  // namespace reprise::protocol::admin
