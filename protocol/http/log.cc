// The only file that includes spdlog.
#include "protocol/http/log.h"

#include <poll.h>
#include <pthread.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/json_text.h"

namespace reprise::protocol {
namespace {

constexpr std::size_t kBytesOfALine = 64;  // approximate overhead of a buffered line in addition to its text

class Lines {
 public:
  explicit Lines(int file) : file_(file) {}

  bool write(const std::string& line) {
    if (torn_ && put("\n") == 1) torn_ = false;
    if (torn_) return false;
    const std::size_t written = put(line);
    torn_ = written > 0 && written < line.size();
    return written == line.size();
  }

 private:
  std::size_t put(std::string_view text) {
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t written = ::write(file_, text.data() + done, text.size() - done);
      if (written > 0) {
        done += static_cast<std::size_t>(written);
      } else if (written < 0 &&
                 (errno == EAGAIN || errno == EWOULDBLOCK)) {  // another process made the file non-blocking
        pollfd ready{.fd = file_, .events = POLLOUT, .revents = 0};
        ::poll(&ready, 1, -1);
      } else if (written == 0 || errno != EINTR) {
        break;
      }
    }
    return done;
  }

  const int file_;
  bool torn_ = false;
};

/// Writes lines to a file descriptor from a thread of its own, so that a slow or stuck reader costs lines,
/// not time. put() never waits. The buffer is bounded; lines that do not fit or cannot be written are counted
/// and replaced by a notice.
///
/// Threading: any thread. The writing thread may block in the kernel without limit: only flush() waits for
/// it, up to its time limit, and the thread ends with the process.
class LineWriter {
 public:
  /// Makes the notice that replaces missing lines. Called by the writing thread.
  using Notice = std::function<std::string(std::uint64_t lines)>;

  /// `file` must stay open. At most `max_bytes` of lines are buffered.
  LineWriter(int file, std::size_t max_bytes, Notice notice);
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  void put(std::string line);
  /// Waits until all lines so far are written or dropped; returns false on timeout.
  bool flush(std::chrono::milliseconds limit);
  std::uint64_t dropped() const;

 private:
  struct Shared;
  static void run(Shared& shared);
  std::shared_ptr<Shared> shared_;
};

struct LineWriter::Shared {
  struct Line {
    std::string text;           // empty: only a gap
    std::uint64_t missing = 0;  // lines dropped before this one
  };

  const int file;
  const std::size_t max_bytes;
  const Notice notice;

  std::mutex mutex{};
  std::condition_variable changed{};
  std::deque<Line> lines{};
  std::size_t bytes = 0;
  std::uint64_t missing = 0;  // lines dropped since the last accepted one
  std::uint64_t dropped = 0;
  bool writing = false;

  static std::size_t cost(const std::string& text) { return text.size() + kBytesOfALine; }
  bool is_idle() const { return lines.empty() && missing == 0 && !writing; }
};

LineWriter::LineWriter(int file, std::size_t max_bytes, Notice notice)
    : shared_(new Shared{.file = file, .max_bytes = max_bytes, .notice = std::move(notice)}) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // other threads take signals; write() reports broken pipes
  std::thread([shared = shared_] { run(*shared); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void LineWriter::put(std::string line) {
  const std::lock_guard lock(shared_->mutex);
  const std::size_t cost = Shared::cost(line);
  if (shared_->bytes + cost > shared_->max_bytes) {
    ++shared_->missing;
    ++shared_->dropped;
  } else {
    shared_->bytes += cost;
    shared_->lines.push_back({std::move(line), std::exchange(shared_->missing, 0)});
  }
  shared_->changed.notify_all();
}

bool LineWriter::flush(std::chrono::milliseconds limit) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, limit, [this] { return shared_->is_idle(); });
}

std::uint64_t LineWriter::dropped() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->dropped;
}

void LineWriter::run(Shared& shared) {
  Lines file(shared.file);
  std::uint64_t missing = 0;  // dropped lines not yet reported in the file
  std::unique_lock lock(shared.mutex);
  for (;;) {
    shared.changed.wait(lock, [&] { return !shared.lines.empty() || shared.missing > 0; });
    Shared::Line line;
    if (!shared.lines.empty()) {
      line = std::move(shared.lines.front());
      shared.lines.pop_front();
      shared.bytes -= Shared::cost(line.text);
    } else {
      line.missing = std::exchange(shared.missing, 0);
    }
    shared.writing = true;
    lock.unlock();

    missing += line.missing;
    if (missing > 0 && file.write(shared.notice(missing))) missing = 0;
    const bool lost = !line.text.empty() && (missing > 0 || !file.write(line.text));
    if (lost) ++missing;

    lock.lock();
    shared.writing = false;
    if (lost) ++shared.dropped;
    if (shared.is_idle()) shared.changed.notify_all();
  }
}

// -- the log

constexpr std::size_t kMaxWaitingBytes = 1 << 20;
constexpr std::chrono::milliseconds kLastWrites{500};  // for buffered lines at exit

std::string formatted(spdlog::formatter& formatter, const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter.format(message, line);
  return {line.data(), line.size()};
}

bool in_json = false;  // set before other threads log

/// In JSON, the message text consists of members of the object.
std::unique_ptr<spdlog::formatter> new_formatter() {
  return std::make_unique<spdlog::pattern_formatter>(
      in_json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})" : "%Y-%m-%dT%H:%M:%S.%e%z %l %v");
}

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text, /*ensure_ascii=*/true);
  return out;
}

std::string as_message(std::string_view text) {
  return in_json ? "\"message\":" + quoted(text) : std::string(text);
}

std::string notice_of(std::uint64_t lines) {
  const std::string text = std::to_string(lines) + (lines == 1 ? " line is" : " lines are") +
                           " missing here: the log was written faster than it was read";
  const std::string message = as_message(text);
  return formatted(*new_formatter(), {"reprise", spdlog::level::warn, message});
}

LineWriter& writer() {
  static LineWriter& instance = *new LineWriter(STDERR_FILENO, kMaxWaitingBytes, notice_of);
  return instance;
}

/// Replaces spdlog's stderr sinks, which wait for the reader, as does its asynchronous logger at exit.
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
  // Never destroyed: destructors that run at exit may log.
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

class RequestLine {
 public:
  /// For values that clients do not control: quoted only in JSON.
  void word(std::string_view name, std::string_view text) {
    add(name, in_json ? quoted(text) : std::string(text));
  }
  void text(std::string_view name, std::string_view given) { add(name, quoted(given)); }
  template <class Number>
  void number(std::string_view name, Number value) {
    add(name, fmt::format("{}", value));
  }
  void ms(std::string_view name, double value) { add(name, fmt::format("{:.3f}", value)); }
  void texts(std::string_view name, const std::vector<std::string>& all) {
    std::string list;
    for (const std::string& one : all) list += (list.empty() ? "" : ",") + quoted(one);
    if (!list.empty()) add(name, "[" + list + "]");
  }
  const std::string& line() const { return line_; }

 private:
  void add(std::string_view name, const std::string& value) {
    line_ += in_json ? ",\"" : " ";
    line_ += name;
    line_ += in_json ? "\":" : "=";
    line_ += value;
  }
  std::string line_ = as_message("request");
};

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

void set_log_json() {
  in_json = true;
  logger().set_formatter(new_formatter());
}

void log_line(LogLevel level, std::string_view text) {
  logger().log(to_spdlog(level), std::string_view(as_message(text)));
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
  RequestLine line;
  line.word("id", record.id);
  line.word("method", record.method);
  line.word("path", record.path);
  line.number("status", record.status);
  line.number("bytes", record.bytes);
  line.ms("ms", record.ms);
  line.word("outcome", record.outcome);
  if (!record.tenant.empty()) line.text("tenant", record.tenant);
  if (!record.model.empty()) line.text("model", record.model);
  if (record.generates) line.number("stream", record.stream);
  if (in_json) {
    line.texts("unknown_fields", record.unknown_fields);
  } else {
    for (const std::string& name : record.unknown_fields) line.text("unknown_field", name);
  }
  if (record.usage) {
    const Usage& usage = *record.usage;
    const CacheReport& cache = usage.cache;
    line.number("prompt_tokens", usage.prompt_tokens);
    line.number("completion_tokens", usage.completion_tokens);
    line.number("restored_tokens", cache.restored_tokens);
    line.number("prefilled_tokens", cache.prefilled_tokens);
    if (!record.broken_off) {
      line.word("miss", name_of(cache.reason));
      line.number("miss_at", cache.known_tokens);
      line.ms("queued_ms", usage.timing.queued_ms);
      line.ms("prefill_ms", usage.timing.prefill_ms);
      line.ms("first_token_ms", usage.timing.first_token_ms);
      line.ms("decode_ms", usage.timing.decode_ms);
    }
  }
  logger().log(level, std::string_view(line.line()));
}

}  // namespace reprise::protocol
