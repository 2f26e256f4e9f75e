#pragma once
// From the JSON body of POST /v1/messages, or of count_tokens, to what it asks for.
//
// Fields that change nothing about the answer are accepted, and named in it where they are not known; one that would
// and is not supported is refused by its name.
//
// Threading: pure functions. Both throw BadRequest.

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"

namespace reprise::protocol::anthropic {

ApiRequest read_messages_request(const Json& body, const BodyLimits& limits);

/// What is needed to count the tokens of the same prompt.
RenderRequest read_count_request(const Json& body, const BodyLimits& limits);

}  // namespace reprise::protocol::anthropic
