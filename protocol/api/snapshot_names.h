#pragma once
// Snapshots with names in requests (protocol/named_snapshots.h): how a name may look, and "from_snapshot": NAME in a body, by
// which what it sends follows what was named. A name belongs to the tenant and the cache_salt of the request that made it.
//
// Threading: pure functions, but for the names, which any thread may use.

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "protocol/api/completions_request.h"
#include "protocol/named_snapshots.h"

namespace reprise::protocol {

/// Members of a body that make its prompt.
inline constexpr const char* kBeginningMembers[] = {"messages",         "tools",     "chat_template_kwargs",
                                                    "reasoning_effort", "prompt",    "model",
                                                    "adapter",          "cache_salt"};

/// Throws BadRequest unless `name` may name a snapshot; `field` is what it was read from.
void check_snapshot_name(std::string_view field, std::string_view name);
/// The name in the field of that name; throws BadRequest.
std::string read_snapshot_name(const Fields& fields, const char* field);
ApiError no_such_snapshot(std::string_view name);

/// The name of a conversation of its own, for one who goes on from `name`: its turns do not replace what others go on from.
std::string new_conversation(const std::string& name);

/// For a name that is about to be put: that of the same name, where there is one, so that its pin moves, or a new one.
SharedPinTicket ticket_for(NamedSnapshots& names, const NameOwner& owner, const std::string& name);
/// The request keeps the name's pin: one that went with a restart, or for lack of memory, is set again.
void keep_pin(const NamedSnapshot& from, GenerateRequest& request);

/// A body whose from_snapshot, if it has one, is replaced by what it stands for.
struct Continued {
  Json body{};
  std::optional<NamedSnapshot> from{};
};
/// Throws BadRequest.
Continued with_beginning(Json body, TextKind kind, NamedSnapshots& names, std::string_view tenant);

}  // namespace reprise::protocol
