// The only file that knows spdlog.
#include "protocol/http/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <iterator>

#include "base/json_text.h"

namespace reprise::protocol {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made =
        std::make_shared<spdlog::logger>("reprise", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    return made;
  }();
  return *instance;
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

std::string in_quotes(std::string_view text) {
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

void log_request(const RequestRecord& record) {
  const auto level = record.generates || record.status >= 500 ? spdlog::level::info : spdlog::level::debug;
  if (!logger().should_log(level)) return;
  fmt::memory_buffer line;
  const auto out = std::back_inserter(line);
  fmt::format_to(out, "request id={} method={} path={} status={} bytes={} ms={:.3f} outcome={}", record.id,
                 record.method, record.path, record.status, record.bytes, record.ms, record.outcome);
  if (!record.tenant.empty()) fmt::format_to(out, " tenant={}", in_quotes(record.tenant));
  if (!record.model.empty()) fmt::format_to(out, " model={}", in_quotes(record.model));
  if (record.generates) fmt::format_to(out, " stream={}", record.stream);
  for (const std::string& name : record.unknown_fields) {
    fmt::format_to(out, " unknown_field={}", in_quotes(name));
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
