#pragma once
// Tracing facade: all tracing of the project goes through this header, the only one that includes Tracy.
//
// Backends:
//   recorder  traces/recorder.h keeps events in memory while it runs; for tests and session files
//   file      traces/session_file.h writes recorded events as a file for Perfetto and chrome://tracing
//   Tracy     if built with REPRISE_TRACY=ON and a profiler is connected
// While none is active, a call costs one relaxed load and a branch. With REPRISE_TRACE=OFF all calls compile
// to nothing.
//
// Terms:
//   track    the line of one actor (traces/track.h); code outside actors is on its thread's line
//   Zone     an interval on the current track, strictly nested. No zone may be open across a co_await,
//            because the coroutine may resume elsewhere; use request marks, messages or plots for what spans
//            turns.
//   mark     an event in the life of a request (traces/request_trace.h)
//   message  a point in time with a text, which is copied
//   plot     a value over time; its name must never be freed
//   frame    the end of one period of a repeating activity; its name must never be freed
//
// Text that is expensive to make should be made only if tracing is on:
//   static constexpr traces::ZoneSite kSite{"prefill slice"};
//   traces::Zone zone(kSite);
//   if (zone.on()) zone.text(std::to_string(tokens) + " tokens");
//
// Threading: any thread.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "traces/recorder.h"
#include "traces/track.h"

#if defined(REPRISE_HAS_TRACY)
#include <tracy/Tracy.hpp>
#endif

namespace reprise::traces {

/// Source location and name of a zone; one constant per location, never freed.
#if defined(REPRISE_HAS_TRACY)
struct ZoneSite : tracy::SourceLocationData {
  constexpr ZoneSite(const char* called, const char* in_file = __builtin_FILE(),
                     const char* in_function = __builtin_FUNCTION(), std::uint32_t at_line = __builtin_LINE())
      : tracy::SourceLocationData{called, in_function, in_file, at_line, 0} {}
};
#else
struct ZoneSite {
  constexpr ZoneSite(const char* called) : name(called) {}
  const char* name;
};
#endif

// -- Tracy, or empty replacements

namespace profiler {

#if defined(REPRISE_HAS_TRACY)

inline bool connected() {
  return TracyIsConnected;
}

/// Identifies the connection in which a fiber was entered: leaving it in another one would be an error in
/// Tracy.
inline std::uint64_t connection() {
#if defined(TRACY_ON_DEMAND)
  return tracy::GetProfiler().ConnectionId();
#else
  return 1;
#endif
}

/// True if actors have tracks of their own (cmake/RepriseTracy.cmake); otherwise turns carry their actor's
/// name.
#if defined(REPRISE_TRACY_FIBERS)
inline constexpr bool kHasTracks = true;
inline void enter_fiber(const char* name) {
  TracyFiberEnter(name);
}
inline void leave_fiber() {
  TracyFiberLeave;
}
#else
inline constexpr bool kHasTracks = false;
inline void enter_fiber(const char*) {}
inline void leave_fiber() {}
#endif

class Zone {
 public:
  explicit Zone(const ZoneSite& site) : zone_(&site) {}
  void text(std::string_view text) { zone_.Text(text.data(), text.size()); }
  void value(std::uint64_t value) { zone_.Value(value); }

 private:
  tracy::ScopedZone zone_;
};

inline void message(std::string_view text) {
  TracyMessage(text.data(), text.size());
}
inline void plot(const char* name, double value) {
  TracyPlot(name, value);
}
inline void frame(const char* name) {
  FrameMarkNamed(name);
}
inline void name_thread(const char* name) {
  tracy::SetThreadName(name);
}
inline void allocated(const char* pool, const void* block, std::size_t bytes) {
  TracyAllocN(block, bytes, pool);
}
inline void freed(const char* pool, const void* block) {
  TracyFreeN(block, pool);
}

#else

constexpr bool connected() {
  return false;
}
inline std::uint64_t connection() {
  return 0;
}
inline constexpr bool kHasTracks = true;
inline void enter_fiber(const char*) {}
inline void leave_fiber() {}

class Zone {
 public:
  explicit Zone(const ZoneSite&) {}
  void text(std::string_view) {}
  void value(std::uint64_t) {}
};

inline void message(std::string_view) {}
inline void plot(const char*, double) {}
inline void frame(const char*) {}
inline void name_thread(const char*) {}
inline void allocated(const char*, const void*, std::size_t) {}
inline void freed(const char*, const void*) {}

#endif

}  // namespace profiler

// -- facade

#if defined(REPRISE_TRACE_OFF)

constexpr bool on() {
  return false;
}

class Zone {
 public:
  explicit Zone(const ZoneSite&) {}
  ~Zone() {}  // not trivial, so that an unused Zone causes no warning
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;

  constexpr bool on() const { return false; }
  void text(std::string_view) {}
  void waited(std::int64_t, std::uint64_t) {}
};

inline void message(std::string_view) {}
inline void sent(const ZoneSite&, const char*, std::uint64_t) {}
inline void span(const ZoneSite&, const char*, std::int64_t, std::int64_t) {}
inline void plot(const char*, double) {}
inline void frame(const char*) {}
inline void name_thread(const char*) {}
inline void allocated(const char*, const void*, std::size_t) {}
inline void freed(const char*, const void*) {}

#else

/// Returns true if a backend is active.
inline bool on() {
  return recording() || profiler::connected();
}

class Zone {
 public:
  explicit Zone(const ZoneSite& site) : site_(site), profiled_(site) {
    if (recording()) [[unlikely]]
      begin_ns_ = now_ns();
  }
  ~Zone() {
    if (begin_ns_ != 0) [[unlikely]]
      keep();
  }
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;

  bool on() const { return begin_ns_ != 0 || profiler::connected(); }
  void text(std::string_view text) {
    profiled_.text(text);
    if (begin_ns_ != 0) text_ = text;
  }
  /// For a turn: the time its message waited in the mailbox, and the message's flow id.
  void waited(std::int64_t ns, std::uint64_t flow) {
    profiled_.value(static_cast<std::uint64_t>(ns));
    wait_ns_ = ns;
    flow_ = flow;
  }

 private:
  void keep();

  const ZoneSite& site_;
  profiler::Zone profiled_;
  std::int64_t begin_ns_ = 0;  // 0: the recorder is off
  std::int64_t wait_ns_ = -1;
  std::uint64_t flow_ = 0;
  std::string text_;
};

void message(std::string_view text);
/// Records that a message was sent to an actor; its turn records the same `flow`.
void sent(const ZoneSite& turn, const char* to, std::uint64_t flow);
/// Records an interval on the named line, for work of another processor. `line` must never be freed. Not sent
/// to Tracy, which has CUPTI for this.
void span(const ZoneSite& site, const char* line, std::int64_t begin_ns, std::int64_t end_ns);
void plot(const char* name, double value);
void frame(const char* name);
void name_thread(const char* name);

/// Reports a pool allocation to Tracy; `pool` must never be freed. Other backends use plots of the pool's
/// size.
inline void allocated(const char* pool, const void* block, std::size_t bytes) {
  profiler::allocated(pool, block, bytes);
}
inline void freed(const char* pool, const void* block) {
  profiler::freed(pool, block);
}

#endif

/// A mutex whose waits are traced.
#if defined(REPRISE_HAS_TRACY)
class Mutex {
 public:
  explicit Mutex(const ZoneSite& site) : mutex_(&site) {}
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  bool try_lock() { return mutex_.try_lock(); }

 private:
  tracy::Lockable<std::mutex> mutex_;
};
#else
class Mutex : public std::mutex {
 public:
  explicit Mutex(const ZoneSite&) {}
};
#endif

}  // namespace reprise::traces
