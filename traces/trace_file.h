#pragma once
// A recorded session as a file: while it is open, what the recorder keeps is written in the Trace Event format, which
// Perfetto (ui.perfetto.dev) and chrome://tracing open. No profiler is needed.
//
//   tracks, threads   lines of one process; a turn's wait in the mailbox is its argument `wait_us`
//   plots             counters
//   requests          asynchronous lines of the category "request", one for each id, with their marks
//
// A thread writes every kInterval, so a program that is killed leaves all but the last moment; the closing bracket may
// then be missing, which the format allows.
//
// Bound: `most_bytes` of the file, after which recording ends by itself; what the recorder could not keep in between is
// counted, and both are told by stop() and in the file's last event.
// Threading: one thread opens and stops; events come from everywhere. One file at a time in a process.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/outcome.h"
#include "traces/event.h"

namespace reprise::traces {

class TraceFile {
 public:
  static constexpr std::uint64_t kMostBytes = 256u << 20;

  struct Summary {
    std::uint64_t events = 0;
    std::uint64_t bytes = 0;
    std::uint64_t dropped = 0;  // events that found no room
    bool full = false;          // the file reached its bound
    std::string error{};        // of writing; empty: none
  };

  /// Begins to record into `path`, which must not exist or may be replaced. The error says why it cannot.
  static Outcome<std::unique_ptr<TraceFile>, std::string> open(const std::filesystem::path& path,
                                                               std::uint64_t most_bytes = kMostBytes);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// Writes what is left and ends. Once.
  Summary stop();

 private:
  TraceFile(std::ofstream out, std::uint64_t most_bytes);

  void write_until_stopped();
  void write_pending();
  void write_names();
  void append(const Event& event);
  void append_arrival(const Event& turn, std::uint32_t line);
  std::uint32_t line_of(const Event& event);
  void put(const std::string& text);

  std::ofstream out_;
  const std::uint64_t most_bytes_;
  const std::int64_t begin_ns_;
  Summary summary_;                             // the writer's, until it has ended
  std::string text_;                            // one event on its way
  std::map<const char*, std::uint32_t> lines_;  // of tracks, by the pointers of their names
  std::map<std::uint32_t, std::string> named_;  // threads' lines that have been named

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;  // under mutex_
  std::thread writer_;     // last: it uses all of the above
};

}  // namespace reprise::traces
