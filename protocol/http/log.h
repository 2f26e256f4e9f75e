#pragma once
// The server's log on stderr: one line an event, "TIME LEVEL words key=value …" or a JSON object, with what clients sent
// quoted. Logging does not wait for whoever reads stderr: about a mebibyte of lines waits to be written, further ones
// are dropped and counted, and a line tells of them where they are missing.
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
/// Of "debug", "info", "warning", "error", "off".
std::optional<LogLevel> log_level_named(std::string_view name);

void set_log_level(LogLevel level);
/// Lines as JSON objects: {"time":…,"level":…,"message":…}, those of requests with a member for each key=value. Call it
/// before other threads log.
void set_log_json();
void log_line(LogLevel level, std::string_view text);
/// Waits half a second at most until what was logged has been written. exit() does so by itself, _exit() does not.
void flush_log();
/// Lines that were not and will not be written.
std::uint64_t dropped_log_lines();

/// What there is to say about a request when it has been answered.
struct RequestRecord {
  std::string id;
  std::string tenant{};
  std::string method{};
  std::string_view path{};  // of the route: a literal, or the route table's
  bool generates = false;
  int status = 0;
  std::uint64_t bytes = 0;  // sent
  double ms = 0;
  std::string outcome = "done";  // or "client_left", or an error's code
  std::string model{};
  bool stream = false;
  std::vector<std::string> unknown_fields{};
  std::optional<Usage> usage{};
  bool broken_off = false;  // `usage` has the tokens until then, and no times
};

/// Generations and failures at kInfo, the rest at kDebug.
void log_request(const RequestRecord& record);

}  // namespace reprise::protocol
