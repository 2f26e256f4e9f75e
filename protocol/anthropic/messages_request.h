#pragma once
// From the JSON body of POST /v1/messages, or of count_tokens, to what it asks for.
//
// What becomes of fields that are not read: protocol/api/field_rules.h.
//
// Threading: pure functions. Both throw BadRequest.

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"

namespace reprise::protocol::anthropic {

ApiRequest read_messages_request(const Json& body, const BodyLimits& limits);

/// What is needed to count the tokens of the same prompt. `unknown` gets the names of fields without effect.
RenderRequest read_count_request(const Json& body, const BodyLimits& limits,
                                 std::vector<std::string>& unknown);

}  // namespace reprise::protocol::anthropic
