#pragma once
// The query of a request's target: "action=save&cache_salt=a%20b".
//
// Threading: pure functions.

#include <optional>
#include <string>
#include <string_view>

namespace reprise::protocol {

/// With %xx decoded; what is no such thing stays as it is.
std::string percent_decoded(std::string_view text);

/// The value of the first member of that name, decoded ('+' is a space); nothing if there is none.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace reprise::protocol
