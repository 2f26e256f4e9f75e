#pragma once
// Anthropic's envelope around what went wrong.
//
// Threading: pure functions.

#include <string_view>

#include "base/json.h"
#include "protocol/api/api_error.h"

namespace reprise::protocol::anthropic {

/// {"type":"error","error":{"type":…,"message":…}}. Bytes that are not UTF-8 are replaced by U+FFFD.
Json envelope(const ApiError& error);

/// What Anthropic answers with: 529 where others say 503 for a server that has too much to do.
int status_of(const ApiError& error);

/// "invalid_request_error", "overloaded_error" …; follows from the status.
std::string_view type_of(const ApiError& error);

}  // namespace reprise::protocol::anthropic
