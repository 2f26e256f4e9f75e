#pragma once
// Fields that other servers know and that would change the answer: refused by name unless their value asks
// for nothing special.
//
// Threading: a pure function.

#include "base/json.h"

namespace reprise::protocol::openai {

/// Throws BadRequest.
void refuse_unsupported_fields(const Json& body);

}  // namespace reprise::protocol::openai
