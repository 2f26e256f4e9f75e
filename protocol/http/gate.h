#pragma once
// Who a request comes from, and whether it is let in: judged by its head, before its body is read.
//
// Threading: the server's loop.

#include <cstdint>
#include <optional>

#include "protocol/http/message.h"
#include "protocol/http/server_context.h"
#include "protocol/http/tenant.h"

namespace reprise::protocol {

/// What a connection is for. In the reserve, which is for times when all others are busy, health and metrics
/// are answered and nothing else.
enum class Seat : std::uint8_t { kRegular, kReserve };

/// Everybody is one tenant where there are no keys. Null: no valid key came.
const Tenant* tenant_of(const HttpRequest& request, const HttpOptions& options);

/// Why not; nothing where it is let in.
std::optional<ApiError> objection(const HttpRequest& request, Seat seat, const ServerContext& context);

}  // namespace reprise::protocol
