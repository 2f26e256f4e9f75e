#pragma once
// How events of a stream are written: server-sent events, with or without names and ids, comments between
// them, and JSON lines.
//
// `json` must be on one line, as Json::dump() writes it.
//
// Threading: pure functions.

#include <string>
#include <string_view>

namespace reprise::protocol {

inline constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";
inline constexpr std::string_view kSseKeepAlive = ": keep-alive\n\n";

inline void append_sse_data(std::string& out, std::string_view json) {
  out += "data: ";
  out += json;
  out += "\n\n";
}

/// `name` has no line break.
inline void append_sse_event(std::string& out, std::string_view name, std::string_view json) {
  out += "event: ";
  out += name;
  out += '\n';
  append_sse_data(out, json);
}

inline constexpr std::string_view kJsonLinesContentType = "application/x-ndjson";

inline void append_json_line(std::string& out, std::string_view json) {
  out += json;
  out += '\n';
}

}  // namespace reprise::protocol
