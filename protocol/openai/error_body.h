#pragma once
// OpenAI's envelope around what went wrong.
//
// Threading: pure functions.

#include <string_view>

#include "base/json.h"
#include "protocol/api/api_error.h"

namespace reprise::protocol::openai {

/// {"error":{"message":…,"type":…,"param":…,"code":…}}. Messages may quote what clients sent: bytes that are
/// not UTF-8 are replaced by U+FFFD.
Json envelope(const ApiError& error);
/// OpenAI's word for the kind of error; follows from the status.
std::string_view type_of(const ApiError& error);

}  // namespace reprise::protocol::openai
