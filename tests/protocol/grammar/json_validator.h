#pragma once
// Whether a JSON value fits a JSON Schema, as simply as it can be said: it shares nothing with protocol/grammar, and
// judges what that generates. Patterns are std::regex's, so their texts must be ASCII.

#include "base/json.h"

namespace reprise::protocol {

/// References lead into `root`.
bool validates(const Json& root, const Json& schema, const Json& value);

}  // namespace reprise::protocol
