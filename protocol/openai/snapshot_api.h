#pragma once
// Conversations with names, to go on from (protocol/openai/snapshot_shelf.h):
//   GET    /v1/snapshots          one's own
//   POST   /v1/snapshots          {"name": NAME, "messages" or "prompt": ..., "ttl": SECONDS}
//   GET    /v1/snapshots/{name}
//   DELETE /v1/snapshots/{name}
// and "from_snapshot": NAME in the body of a request: what it sends follows what was named.
//
// Threading: pure functions, but for the shelf.

#include <memory>
#include <string_view>
#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/openai/request.h"
#include "protocol/openai/snapshot_shelf.h"

namespace reprise::protocol::openai {

std::vector<ApiRoute> snapshot_routes(const std::shared_ptr<SnapshotShelf>& shelf);

/// The body with what its from_snapshot stands for; as it is where it has none. Throws BadRequest.
Json with_beginning(Json body, TextKind kind, SnapshotShelf& shelf, std::string_view tenant);

}  // namespace reprise::protocol::openai
