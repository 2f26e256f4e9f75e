#pragma once
// Records restarts of the actors of one kind, for health and metrics.
//
// Threading: any thread; a short lock.

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "runtime/detail/ticks.h"

namespace reprise::actors {

class RestartLog {
 public:
  /// The first `births` starts do not count as restarts.
  explicit RestartLog(std::uint32_t births = 0) : births_(births) {}

  /// Records that an actor has started, initially or after a failure.
  void note_start(runtime::TimePoint now = runtime::Clock::now()) {
    const std::lock_guard lock(mutex_);
    if (births_ > 0) {
      --births_;
    } else {
      note(now);
    }
  }
  void note_restart(runtime::TimePoint now = runtime::Clock::now()) {
    const std::lock_guard lock(mutex_);
    note(now);
  }

  std::uint64_t total() const {
    const std::lock_guard lock(mutex_);
    return total_;
  }
  /// Returns true if there were kMany restarts within kWindow.
  bool too_often(runtime::TimePoint now = runtime::Clock::now()) const {
    const std::lock_guard lock(mutex_);
    return last_.size() == kMany && now - last_.front() < kWindow;
  }

  static constexpr std::size_t kMany = 5;
  static constexpr std::chrono::seconds kWindow{60};

 private:
  void note(runtime::TimePoint now) {
    ++total_;
    last_.push_back(now);
    if (last_.size() > kMany) last_.pop_front();
  }

  mutable std::mutex mutex_;
  std::uint32_t births_;
  std::uint64_t total_ = 0;
  std::deque<runtime::TimePoint> last_;  // at most kMany
};

/// The restarts of the engine's actors, by kind. Request actors are not restarted.
struct Restarts {
  explicit Restarts(std::uint32_t text_actors) : texts(text_actors) {}
  RestartLog texts;
  RestartLog registries;
  RestartLog devices;
  RestartLog supervisors{1};
};

}  // namespace reprise::actors
