// The only file that knows spdlog.
#include "protocol/http/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>
#include <mutex>

#include "base/json_text.h"
#include "protocol/http/line_writer.h"

namespace reprise::protocol {
namespace {

constexpr std::size_t kMostWaitingBytes = 1 << 20;
constexpr std::chrono::milliseconds kLastWrites{500};  // for what waits when the program ends

std::string formatted(spdlog::formatter& formatter, const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter.format(message, line);
  return {line.data(), line.size()};
}

std::unique_ptr<spdlog::formatter> new_formatter() {
  return std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
}

std::string notice_of(std::uint64_t lines) {
  const std::string text = std::to_string(lines) + (lines == 1 ? " line is" : " lines are") +
                           " missing here: the log was not read in time";
  return formatted(*new_formatter(), {"reprise", spdlog::level::warn, text});
}

LineWriter& writer() {
  static LineWriter& instance = *new LineWriter(STDERR_FILENO, kMostWaitingBytes, notice_of);
  return instance;
}

/// spdlog's own sinks for stderr wait for its reader, and its asynchronous logger does so when the program ends.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  Sink() : base_sink(new_formatter()) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    writer().put(formatted(*formatter_, message));
  }
  void flush_() override {}
};

spdlog::logger& logger() {
  // For ever: whatever is destroyed when the program ends may still have something to say.
  static spdlog::logger& instance = []() -> spdlog::logger& {
    std::atexit(flush_log);
    return *new spdlog::logger("reprise", std::make_shared<Sink>());
  }();
  return instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text, /*ensure_ascii=*/true);
  return out;
}

}  // namespace

std::optional<LogLevel> log_level_named(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return std::nullopt;
}

void set_log_level(LogLevel level) {
  logger().set_level(to_spdlog(level));
}

void log_line(LogLevel level, std::string_view text) {
  logger().log(to_spdlog(level), text);
}

void flush_log() {
  writer().flush(kLastWrites);
}

std::uint64_t dropped_log_lines() {
  return writer().dropped();
}

void log_request(const RequestRecord& record) {
  const auto level = record.generates || record.status >= 500 ? spdlog::level::info : spdlog::level::debug;
  if (!logger().should_log(level)) return;
  fmt::memory_buffer line;
  const auto out = std::back_inserter(line);
  fmt::format_to(out, "request id={} method={} path={} status={} bytes={} ms={:.3f} outcome={}", record.id,
                 record.method, record.path, record.status, record.bytes, record.ms, record.outcome);
  if (!record.tenant.empty()) fmt::format_to(out, " tenant={}", quoted(record.tenant));
  if (!record.model.empty()) fmt::format_to(out, " model={}", quoted(record.model));
  if (record.generates) fmt::format_to(out, " stream={}", record.stream);
  for (const std::string& name : record.unknown_fields) {
    fmt::format_to(out, " unknown_field={}", quoted(name));
  }
  if (record.usage) {
    const Usage& usage = *record.usage;
    const CacheReport& cache = usage.cache;
    fmt::format_to(
        out,
        " prompt_tokens={} completion_tokens={} restored_tokens={} prefilled_tokens={} miss={} miss_at={}",
        usage.prompt_tokens, usage.completion_tokens, cache.restored_tokens, cache.prefilled_tokens,
        name_of(cache.reason), cache.known_tokens);
    fmt::format_to(out, " queued_ms={:.3f} prefill_ms={:.3f} first_token_ms={:.3f} decode_ms={:.3f}",
                   usage.timing.queued_ms, usage.timing.prefill_ms, usage.timing.first_token_ms,
                   usage.timing.decode_ms);
  }
  logger().log(level, std::string_view(line.data(), line.size()));
}

}  // namespace reprise::protocol
