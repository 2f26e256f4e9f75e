#pragma once
// The recorder behind traces/trace.h: while it runs, it keeps every event in memory until somebody takes it. Tests
// take events to assert them; traces/session_file.h takes them to write a file.
//
// Each thread has a log of its own with a lock of its own, which only take() ever contends for. Order is by time;
// take() gives the events of one thread in the order in which they ended, threads one after another.
//
// Bound: `most_events` that nobody has taken yet; what comes beyond is counted in dropped(), not kept.
// Threading: any thread. One user at a time: start() fails while it runs.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "traces/event.h"

namespace reprise::traces {

/// Whether the recorder runs. Relaxed: a thread that sees it late records a little less, or in vain.
inline constinit std::atomic<bool> recorder_runs{false};

inline bool recording() {
  return recorder_runs.load(std::memory_order_relaxed);
}

class Recorder {
 public:
  static constexpr std::size_t kMostEvents = 1'000'000;

  /// Begins with nothing. False: it runs already, or tracing was compiled out.
  [[nodiscard]] static bool start(std::size_t most_events = kMostEvents);
  /// What was recorded and not taken stays for take().
  static void stop();

  /// Hands over what has been recorded.
  static std::vector<Event> take();
  /// Since start().
  static std::uint64_t dropped();

  /// Keeps an event, and puts this thread's number into it, and its present track where there is none.
  static void add(Event event);

  /// What threads are called, by number; a thread that never recorded anything has none.
  static std::vector<std::pair<std::uint32_t, std::string>> thread_names();
  static void name_thread(std::string name);
};

std::int64_t now_ns();

}  // namespace reprise::traces
