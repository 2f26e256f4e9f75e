#pragma once
// The tracing façade: the one place through which the project speaks to a profiler.
//
// What is behind it is chosen when a target is compiled:
//   (nothing)                  every call below is empty and vanishes
//   REPRISE_TRACE_RECORDER     traces/recorder.h keeps the events, for tests to assert
//
// Vocabulary
//   fiber    the track of one actor: entered when one of its turns begins on a thread, left when the turn ends.
//            A fiber is known by the *pointer* of its name, which must live for ever (runtime/names.h interns).
//   Zone     an interval on the current track, strictly nested. Rule: no zone stays open across a co_await, for
//            the coroutine may go on elsewhere; intervals that span turns are told as messages or plots.
//   message  a point in time with text, copied.
//   plot     a value over time; the name must live for ever.
//
// Threading: any thread; calls on one thread form that thread's track, or the entered fiber's.

#include <string_view>

#if defined(REPRISE_TRACE_RECORDER)
#include "traces/recorder.h"
#endif

namespace reprise::traces {

#if defined(REPRISE_TRACE_RECORDER)

inline void fiber_enter(const char* name) {
  record({Event::Kind::kFiberEnter, name, {}});
}
inline void fiber_leave(const char* name) {
  record({Event::Kind::kFiberLeave, name, {}});
}
inline void message(std::string_view text) {
  record({Event::Kind::kMessage, "", std::string(text)});
}
inline void plot(const char* name, double value) {
  record({Event::Kind::kPlot, name, std::to_string(value)});
}

class Zone {
 public:
  explicit Zone(const char* name, std::string_view text = {}) : name_(name) {
    record({Event::Kind::kZoneBegin, name, std::string(text)});
  }
  ~Zone() { record({Event::Kind::kZoneEnd, name_, {}}); }
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;

 private:
  const char* name_;
};

#else

inline void fiber_enter(const char*) {}
inline void fiber_leave(const char*) {}
inline void message(std::string_view) {}
inline void plot(const char*, double) {}

class Zone {
 public:
  explicit Zone(const char*, std::string_view = {}) {}
  ~Zone() {}  // not trivial, so that an unused zone is no warning
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;
};

#endif

}  // namespace reprise::traces
