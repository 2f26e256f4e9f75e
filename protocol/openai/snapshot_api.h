#pragma once
// Snapshots with names, to go on from (protocol/named_snapshots.h):
//   GET    /v1/snapshots          one's own
//   POST   /v1/snapshots          {"name": NAME, "messages" or "prompt": ..., "ttl": SECONDS, "pin": false}
//   GET    /v1/snapshots/{name}
//   DELETE /v1/snapshots/{name}
// and "from_snapshot": NAME in the body of a request: what it sends follows what was named. A name belongs to the tenant
// and the cache_salt of the request that made it; GET and DELETE say the salt beside the path.
//
// Threading: pure functions, but for the names, which any thread may use.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/named_snapshots.h"
#include "protocol/openai/request.h"

namespace reprise::protocol::openai {

std::vector<ApiRoute> snapshot_routes(const std::shared_ptr<NamedSnapshots>& names);

/// Throws BadRequest unless `name` may name a snapshot; `field` is what it was read from.
void check_snapshot_name(std::string_view field, std::string_view name);

/// The name of a conversation of its own, for one who goes on from `name`: its turns do not replace what others go on from.
std::string new_conversation(const std::string& name);

/// For a name that is about to be put: that of the same name, where there is one, so that its pin moves, or a new one.
SharedPinTicket ticket_for(NamedSnapshots& names, const NameOwner& owner, const std::string& name);

/// A body whose from_snapshot, if it has one, is replaced by what it stands for.
struct Continued {
  Json body{};
  std::optional<NamedSnapshot> from{};

  /// The request keeps the name's pin: one that went with a restart, or for lack of memory, is set again.
  void pin(GenerateRequest& request) const;
};
/// Throws BadRequest.
Continued with_beginning(Json body, TextKind kind, NamedSnapshots& names, std::string_view tenant);

}  // namespace reprise::protocol::openai
