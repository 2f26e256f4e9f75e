#pragma once
// Dates for strftime_now, in UTC and in English whatever the machine speaks.
//
// Threading: pure functions.

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::protocol::jinja {

/// As Python's datetime.strftime of a time without zone; %Z and %z are empty. Fails for unknown directives.
std::string format_time(std::string_view format, std::int64_t seconds_since_1970);

}  // namespace reprise::protocol::jinja
