#pragma once
// What a client is told when the server itself, not the engine, cannot take its request now.
//
// Threading: pure functions.

#include <cstdint>
#include <string>

#include "protocol/api/api_error.h"
#include "protocol/http/tenant_meter.h"

namespace reprise::protocol {

/// No connection, or no memory, is left for what is asked.
ApiError server_busy(std::string message);
ApiError too_many_requests(std::uint32_t most);
/// More at once than there ever can be: trying again would not help.
ApiError never_fits(std::uint64_t wanted, std::uint32_t most);
ApiError over_limit(const OverLimit& over, const Tenant& tenant);
ApiError shutting_down();

}  // namespace reprise::protocol
