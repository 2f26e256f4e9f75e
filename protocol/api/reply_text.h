#pragma once
// What replies of several APIs have in common as text: how the events of a stream are written, bytes that are perhaps no
// text, and the account of a request.
//
// Threading: plain values and pure functions.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json_text.h"
#include "base/utf8.h"
#include "protocol/service.h"

namespace reprise::protocol {

// -- events: server-sent ones, with or without names and ids, comments between them, and JSON lines. `json` must be on one
// line, as Json::dump() writes it.

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

// -- single values

/// As JSON, the bytes of a token or what a client sent; what is not UTF-8 becomes U+FFFD.
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

// -- the account

/// {"restored_tokens":…}: what the cache did, and the times.
void append_reprise(std::string& out, const Usage& usage);

/// What llama-server calls timings: tokens of prompt and reply, and how fast they were.
struct Timings {
  std::uint32_t cache_n = 0;   // tokens of the prompt that were restored
  std::uint32_t prompt_n = 0;  // and those that were computed
  double prompt_ms = 0;
  std::uint32_t predicted_n = 0;
  double predicted_ms = 0;
};

Timings timings_of(const Usage& usage);
/// {"cache_n":…,"prompt_n":…,"prompt_ms":…,…}
void append_timings(std::string& out, const Timings& timings);

/// The same while a reply goes on, of one of its choices or of all.
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
