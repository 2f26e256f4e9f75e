#pragma once
// The recorder behind traces/trace.h: while it runs, it keeps all events in memory until take(). Used by
// tests and by traces/session_file.h.
//
// Each thread has its own log and lock, which only take() contends for. take() returns the events of one
// thread after another, each in the order in which they ended.
//
// Bound: `max_events` not taken yet; further ones are counted in dropped() and lost. Threading: any thread.
// One user at a time: start() fails while it runs.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "traces/event.h"

namespace reprise::traces {

/// Relaxed: a thread that sees a change late records a few events too few or too many.
inline constinit std::atomic<bool> recorder_runs{false};

inline bool recording() {
  return recorder_runs.load(std::memory_order_relaxed);
}

class Recorder {
 public:
  static constexpr std::size_t kMaxEvents = 1'000'000;

  /// Starts without events. Returns false if it runs already or tracing is compiled out.
  [[nodiscard]] static bool start(std::size_t max_events = kMaxEvents);
  /// Stops recording; events not taken remain for take().
  static void stop();

  static std::vector<Event> take();
  /// Events lost since start().
  static std::uint64_t dropped();

  /// Stores an event with this thread's number and, if it names none, the current track.
  static void add(Event event);

  /// Returns names by thread number, for threads that have recorded anything.
  static std::vector<std::pair<std::uint32_t, std::string>> thread_names();
  static void name_thread(std::string name);
};

std::int64_t now_ns();

}  // namespace reprise::traces
