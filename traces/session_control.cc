#include "traces/session_control.h"

#include "traces/recorder.h"

namespace reprise::traces {

SessionControl::SessionControl(std::filesystem::path path, std::uint64_t max_bytes,
                               std::function<void(const std::string&)> tell)
    : path_(std::move(path)), max_bytes_(max_bytes), tell_(std::move(tell)) {}

SessionControl::~SessionControl() = default;

std::filesystem::path SessionControl::path_of(std::uint32_t number) const {
  if (number <= 1) return path_;
  std::filesystem::path numbered = path_;
  numbered.replace_extension();
  numbered += std::string(1, '.').append(std::to_string(number));
  numbered += path_.extension();
  return numbered;
}

SessionControl::State SessionControl::state() const {
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) return {};
  return {.records = recording() && !file_->ended(), .file = path_of(sessions_).string()};
}

SessionControl::Changed SessionControl::start() {
  {
    const std::lock_guard lock(mutex_);
    if (file_ != nullptr && !file_->ended()) {
      return std::string(recording() ? "a trace is being recorded already"
                                     : "the last trace is still being written");
    }
    file_.reset();
    const std::filesystem::path path = path_of(sessions_ + 1);
    auto opened = SessionFile::open(path, max_bytes_, [tell = tell_, path](const SessionFile::Summary& done) {
      std::string line = "the trace " + path.string() + " is complete: " + std::to_string(done.events) +
                         " events, " + std::to_string(done.bytes) + " bytes";
      if (done.dropped > 0) line += ", " + std::to_string(done.dropped) + " events found no room";
      if (done.full) line += "; it reached its size";
      if (!done.error.empty()) line += "; " + done.error;
      tell(line);
    });
    if (!opened.ok()) return opened.error();
    file_ = std::move(*opened);
    ++sessions_;
  }
  State now = state();
  tell_("tracing into " + now.file);
  return now;
}

SessionControl::Changed SessionControl::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (file_ == nullptr || file_->ended()) return std::string("no trace is being recorded");
    file_->stop_soon();
  }
  return state();
}

void SessionControl::finish() {
  const std::lock_guard lock(mutex_);
  file_.reset();
}

void SessionControl::toggle() {
  const Changed changed = state().records ? stop() : start();
  if (!changed.ok()) tell_("tracing: " + changed.error());
}

}  // namespace reprise::traces
