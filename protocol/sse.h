#pragma once
// Server-sent events as text: one JSON value an event, and comments that keep a connection awake.
//
// Threading: pure functions.

#include <string>
#include <string_view>

namespace reprise::protocol {

inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
inline constexpr std::string_view kSseKeepAlive = ": keep-alive\n\n";

/// `json` must be on one line, as Json::dump() writes it.
inline void append_sse_data(std::string& out, std::string_view json) {
  out += "data: ";
  out += json;
  out += "\n\n";
}

}  // namespace reprise::protocol
