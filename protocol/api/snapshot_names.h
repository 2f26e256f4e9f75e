#pragma once
// Named snapshots in requests (protocol/named_snapshots.h): validation of names, and "from_snapshot": NAME in
// a body, which prepends the snapshot's prompt to what the body sends. A name belongs to the tenant and the
// cache_salt of the request that created it.

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "protocol/api/completions_request.h"
#include "protocol/named_snapshots.h"

namespace reprise::protocol {

/// Members of a body that determine its prompt.
inline constexpr const char* kBeginningMembers[] = {"messages",         "tools",     "chat_template_kwargs",
                                                    "reasoning_effort", "prompt",    "model",
                                                    "adapter",          "cache_salt"};

/// Throws BadRequest unless `name` is valid; `field` names its source.
void check_snapshot_name(std::string_view field, std::string_view name);
std::string read_snapshot_name(const Fields& fields, const char* field);
Error no_such_snapshot(std::string_view name);

/// Returns a new conversation ID for a request that continues from `name`, so that its turns do not replace
/// states that others continue from.
std::string new_conversation(const std::string& name);

/// Returns the pin of the existing snapshot of that name, so that the pin moves, or a new one.
SharedPinTicket ticket_for(NamedSnapshots& names, const NameOwner& owner, const std::string& name);
/// Makes the request renew the name's pin, in case it was lost by a restart or for lack of memory.
void keep_pin(const NamedSnapshot& from, GenerateRequest& request);

/// A body whose from_snapshot, if any, was replaced by the snapshot's contents.
struct Continued {
  Json body{};
  std::optional<NamedSnapshot> from{};
};
/// Resolves from_snapshot. Throws BadRequest.
Continued with_beginning(Json body, TextKind kind, NamedSnapshots& names, std::string_view tenant);

}  // namespace reprise::protocol
