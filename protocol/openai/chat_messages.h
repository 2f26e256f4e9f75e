#pragma once
// Checks the messages and tools of a chat before a template sees them.
//
// Roles and content parts that cannot be answered for (images, audio) are refused with the place where they
// stand: "messages[3].content[0].type". In results of tools and in history such parts become a text
// (protocol/api/omitted_part.h). Nothing else is changed: the template gets what the client sent.
//
// Threading: pure functions. Both throw BadRequest.

#include "base/json.h"
#include "protocol/api/body_limits.h"

namespace reprise::protocol::openai {

void check_messages(Json::Array& messages, const BodyLimits& limits);
void check_tools(const Json::Array& tools, const BodyLimits& limits);

}  // namespace reprise::protocol::openai
