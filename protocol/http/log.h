#pragma once
// The server's log on stderr: one line per event, "TIME LEVEL words key=value …" or a JSON object. Text from
// clients is quoted. Logging never waits for the reader of stderr: about 1 MiB of lines is buffered; further
// lines are dropped, and a notice in the log has their number.
//
// Threading: any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/service.h"

namespace reprise::protocol {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError, kOff };
std::optional<LogLevel> log_level_named(std::string_view name);

void set_log_level(LogLevel level);
/// Switches to JSON lines: {"time":…,"level":…,"message":…}; lines of requests have one member per key=value.
/// Call before other threads log.
void set_log_json();
void log_line(LogLevel level, std::string_view text);
/// Waits up to 0.5 s until all logged lines are written. exit() calls it; _exit() does not.
void flush_log();
std::uint64_t dropped_log_lines();

struct RequestRecord {
  std::string id;
  std::string tenant{};
  std::string method{};
  std::string_view path{};  // owned by the route table
  bool generates = false;
  int status = 0;
  std::uint64_t bytes = 0;  // sent
  double ms = 0;
  std::string outcome = "done";  // or "client_left", or an error code
  std::string model{};
  bool stream = false;
  std::vector<std::string> unknown_fields{};
  std::optional<Usage> usage{};
  bool broken_off = false;  // `usage` covers the tokens up to the break and has no times
};

/// Logs generations and failures at kInfo, other requests at kDebug.
void log_request(const RequestRecord& record);

}  // namespace reprise::protocol
