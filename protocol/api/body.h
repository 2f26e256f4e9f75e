#pragma once
// The body of a request as JSON, and values in it that several APIs have.
//
// Threading: pure functions. All throw BadRequest.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/token.h"
#include "protocol/api/body_limits.h"

namespace reprise::protocol {

/// Whether token ids, of which there may be many, come on top of a body's other values.
enum class BodyHolds : std::uint8_t { kText, kTokenIds };

/// Parses a body that must be an object.
Json parse_body(std::string_view body, const BodyLimits& limits, BodyHolds holds);

/// A list of token ids; `path` names it in errors.
TokenList read_token_list(const Json::Array& items, const std::string& path, const BodyLimits& limits);

}  // namespace reprise::protocol
