#pragma once
// Text output shared by several APIs: stream events, strings that may be invalid UTF-8, and a request's
// usage.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json_text.h"
#include "base/utf8.h"
#include "protocol/service.h"

namespace reprise::protocol {

// -- events: server-sent events with or without names, comments between them, and JSON lines. `json` must be
// a single line, as Json::dump() writes it.

inline constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";
inline constexpr std::string_view kSseKeepAlive = ": keep-alive\n\n";

inline void append_sse_data(std::string& out, std::string_view json) {
  out += "data: ";
  out += json;
  out += "\n\n";
}

/// `name` must have no line break.
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

// -- single values

/// Appends bytes as a JSON string; invalid UTF-8 becomes U+FFFD.
inline void append_lossy_string(std::string& out, std::string_view bytes) {
  if (is_utf8(bytes)) return append_json_string(out, bytes);
  append_json_string(out, as_utf8(bytes));
}

template <class Items, class Append>
void append_list(std::string& out, const Items& items, Append append) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!std::exchange(first, false)) out += ',';
    append(item);
  }
  out += ']';
}

// -- usage

/// Appends {"restored_tokens":…}: the cache's result and the times.
void append_reprise(std::string& out, const Usage& usage);

/// llama-server's "timings": token counts and times of prompt and reply.
struct Timings {
  std::uint32_t cache_n = 0;   // restored tokens of the prompt
  std::uint32_t prompt_n = 0;  // prefilled tokens of the prompt
  double prompt_ms = 0;
  std::uint32_t predicted_n = 0;
  double predicted_ms = 0;
};

Timings timings_of(const Usage& usage);
void append_timings(std::string& out, const Timings& timings);

/// Timings of a running reply, for one choice or all.
class LiveTimings {
 public:
  void started(const Started& event);
  void add(std::size_t tokens) { now_.predicted_n += static_cast<std::uint32_t>(tokens); }
  Timings now() const;

 private:
  Timings now_{};
  std::chrono::steady_clock::time_point admitted_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point started_{};
};

}  // namespace reprise::protocol
