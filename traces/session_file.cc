#include "traces/session_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/json_text.h"
#include "traces/trace.h"

namespace reprise::traces {
namespace {

constexpr std::chrono::milliseconds kInterval{100};
constexpr std::size_t kMaxPending = 400'000;      // max events between two writes, about 60 MB
constexpr std::uint32_t kFirstTrack = 1'000'000;  // line numbers: threads below, tracks from here on
constexpr std::size_t kRoomForTheEnd = 512;       // bytes reserved for the last event

void append_us(std::string& out, std::int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  out += text;
}

void append_field(std::string& out, const char* name, std::string_view text) {
  out += ",\"";
  out += name;
  out += "\":";
  append_json_string(out, text, true);
}

}  // namespace

Outcome<std::unique_ptr<SessionFile>, std::string> SessionFile::open(
    const std::filesystem::path& path, std::uint64_t max_bytes, std::function<void(const Summary&)> ended) {
  if (recording()) return std::string("a trace is being recorded already");
  std::ofstream out(path, std::ios::trunc | std::ios::binary);
  if (!out) return "cannot write the trace " + path.string() + ": " + std::string(std::strerror(errno));
  if (!Recorder::start(kMaxPending)) return std::string("tracing was compiled out");
  return std::unique_ptr<SessionFile>(new SessionFile(std::move(out), max_bytes, std::move(ended)));
}

SessionFile::SessionFile(std::ofstream out, std::uint64_t max_bytes,
                         std::function<void(const Summary&)> ended)
    : out_(std::move(out)), max_bytes_(max_bytes), on_end_(std::move(ended)), begin_ns_(now_ns()) {
  put("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
      "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"reprise\"}}");
  writer_ = std::thread([this] { write_until_stopped(); });
}

SessionFile::~SessionFile() {
  if (writer_.joinable()) stop();
}

void SessionFile::stop_soon() {
  Recorder::stop();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_one();
}

SessionFile::Summary SessionFile::stop() {
  stop_soon();
  writer_.join();
  return summary_;
}

void SessionFile::write_until_stopped() {
  name_thread("trace writer");
  std::unique_lock lock(mutex_);
  for (bool last = false; !last;) {
    last = stopped_.wait_for(lock, kInterval, [this] { return stopping_; }) || summary_.full;
    lock.unlock();
    write_pending();
    lock.lock();
  }
  summary_.dropped += Recorder::dropped();
  text_ = ",\n{\"ph\":\"M\",\"pid\":1,\"name\":\"trace_end\",\"args\":{\"events\":" +
          std::to_string(summary_.events) + ",\"dropped\":" + std::to_string(summary_.dropped) +
          ",\"full\":" + (summary_.full ? "true" : "false") + "}}\n]}\n";
  put(text_);
  out_.close();
  if (!out_ && summary_.error.empty()) summary_.error = "the trace could not be written to its end";
  ended_.store(true, std::memory_order_release);
  if (on_end_) on_end_(summary_);
}

void SessionFile::write_pending() {
  const std::vector<Event> events = Recorder::take();
  write_names();
  for (const Event& event : events) {
    if (summary_.full || !summary_.error.empty()) {
      ++summary_.dropped;
      continue;
    }
    text_.clear();
    append(event);
    if (summary_.bytes + text_.size() + kRoomForTheEnd > max_bytes_) {
      summary_.full = true;
      Recorder::stop();
      ++summary_.dropped;
      continue;
    }
    put(text_);
    ++summary_.events;
  }
  out_.flush();
}

void SessionFile::put(const std::string& text) {
  out_ << text;
  if (!out_ && summary_.error.empty()) {
    summary_.error = std::string("writing the trace failed: ") + std::strerror(errno);
    Recorder::stop();
  }
  summary_.bytes += text.size();
}

// A thread gets its name when it begins, which may be after its first event.
void SessionFile::write_names() {
  for (auto& [thread, name] : Recorder::thread_names()) {
    std::string& known = named_[thread];
    if (known == name) continue;
    known = name;
    text_ = ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":" + std::to_string(thread) +
            ",\"name\":\"thread_name\",\"args\":{\"name\":";
    append_json_string(text_, name, true);
    text_ += "}}";
    if (summary_.bytes + text_.size() + kRoomForTheEnd <= max_bytes_) put(text_);
  }
}

std::uint32_t SessionFile::line_of(const Event& event) {
  if (event.track == nullptr) return event.thread;
  const auto [found, is_new] =
      lines_.try_emplace(event.track, kFirstTrack + static_cast<std::uint32_t>(lines_.size()));
  if (is_new) {
    text_ += ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":" + std::to_string(found->second) +
             ",\"name\":\"thread_name\",\"args\":{\"name\":";
    append_json_string(text_, event.track, true);
    text_ += "}}";
  }
  return found->second;
}

void SessionFile::append(const Event& event) {
  const std::uint32_t line = line_of(event);
  using Kind = Event::Kind;
  const auto phase = [&]() -> const char* {
    switch (event.kind) {
      case Kind::kZone:
        return "X";
      case Kind::kPlot:
        return "C";
      case Kind::kSent:
        return "s";
      case Kind::kRequestBegin:
        return "b";
      case Kind::kRequestMark:
        return "n";
      case Kind::kRequestEnd:
        return "e";
      case Kind::kMessage:
      case Kind::kFrame:
        break;
    }
    return "i";
  };
  text_ += ",\n{\"ph\":\"";
  text_ += phase();
  text_ += "\",\"pid\":1,\"tid\":" + std::to_string(line) + ",\"ts\":";
  append_us(text_, std::max<std::int64_t>(0, event.at_ns - begin_ns_));
  if (event.kind == Kind::kZone) {
    text_ += ",\"dur\":";
    append_us(text_, event.end_ns - event.at_ns);
  }
  if (event.kind == Kind::kSent) {
    text_ += ",\"cat\":\"mail\",\"id\":\"" + std::to_string(event.flow) + '"';
  }
  if (!event.id.empty()) {
    text_ += ",\"cat\":\"request\"";
    append_field(text_, "id", event.id);
  }
  // The format requires equal names at begin and end.
  const bool bounds = event.kind == Kind::kRequestBegin || event.kind == Kind::kRequestEnd;
  append_field(text_, "name",
               bounds                         ? "request " + event.id
               : event.kind == Kind::kMessage ? event.text
                                              : std::string(event.name));
  text_ += ",\"args\":{";
  if (event.kind == Kind::kPlot) {
    text_ += "\"value\":";
    append_json_double(text_, event.number, false);
  } else {
    text_ += "\"text\":";
    append_json_string(text_, event.text, true);
    if (bounds) append_field(text_, "event", event.name);
    if (event.wait_ns >= 0) {
      text_ += ",\"wait_us\":";
      append_us(text_, event.wait_ns);
    }
  }
  text_ += "}}";
  if (event.kind == Kind::kZone && event.flow != 0) append_arrival(event, line);
}

// Ends the flow arrow from the send at the turn.
void SessionFile::append_arrival(const Event& turn, std::uint32_t line) {
  text_ +=
      ",\n{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"mail\",\"pid\":1,\"tid\":" + std::to_string(line) + ",\"ts\":";
  append_us(text_, std::max<std::int64_t>(0, turn.at_ns - begin_ns_));
  text_ += ",\"id\":\"" + std::to_string(turn.flow) + '"';
  append_field(text_, "name", turn.name);
  text_ += '}';
}

}  // namespace reprise::traces
