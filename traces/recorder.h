#pragma once
// The recorder behind traces/trace.h in tests: keeps every event in the order in which it happened, so that a
// test can assert zones, their nesting, enter/leave pairs and messages.
//
// Bound: kMaxEvents; later events are counted in dropped(), not kept.
// Threading: record() from any thread (one mutex: this is for tests); read with events() when things are
// quiet.

#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::traces {

struct Event {
  enum class Kind { kFiberEnter, kFiberLeave, kZoneBegin, kZoneEnd, kMessage, kPlot };
  Kind kind;
  const char* name;  // of the fiber, zone or plot; lives for ever
  std::string text;
  std::thread::id thread{};
};

class Recorder {
 public:
  static constexpr std::size_t kMaxEvents = 1'000'000;

  static Recorder& instance() {
    static Recorder recorder;
    return recorder;
  }

  void add(Event event) {
    event.thread = std::this_thread::get_id();
    std::lock_guard lock(mutex_);
    if (events_.size() == kMaxEvents) {
      ++dropped_;
      return;
    }
    events_.push_back(std::move(event));
  }

  /// Hands over what was recorded and starts afresh.
  std::vector<Event> take() {
    std::lock_guard lock(mutex_);
    dropped_ = 0;
    return std::exchange(events_, {});
  }

  std::size_t dropped() {
    std::lock_guard lock(mutex_);
    return dropped_;
  }

 private:
  std::mutex mutex_;
  std::vector<Event> events_;
  std::size_t dropped_ = 0;
};

inline void record(Event event) {
  Recorder::instance().add(std::move(event));
}

}  // namespace reprise::traces
