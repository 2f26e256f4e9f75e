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
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/outcome.h"
#include "traces/event.h"

namespace reprise::traces {

class SessionFile {
 public:
  static constexpr std::uint64_t kMostBytes = 256u << 20;

  struct Summary {
    std::uint64_t events = 0;
    std::uint64_t bytes = 0;
    std::uint64_t dropped = 0;  // events that found no room
    bool full = false;          // the file reached its bound
    std::string error{};        // of writing; empty: none
  };

  /// Begins to record into `path`, which is replaced. The error says why it cannot. `ended` is called by the writer,
  /// once, when the file is whole.
  static Outcome<std::unique_ptr<SessionFile>, std::string> open(
      const std::filesystem::path& path, std::uint64_t most_bytes = kMostBytes,
      std::function<void(const Summary&)> ended = {});
  ~SessionFile();
  SessionFile(const SessionFile&) = delete;
  SessionFile& operator=(const SessionFile&) = delete;

  /// Ends the recording; what is left is written by and by.
  void stop_soon();
  /// The file is whole.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  /// Writes what is left and ends. Once.
  Summary stop();

 private:
  SessionFile(std::ofstream out, std::uint64_t most_bytes, std::function<void(const Summary&)> ended);

  void write_until_stopped();
  void write_pending();
  void write_names();
  void append(const Event& event);
  void append_arrival(const Event& turn, std::uint32_t line);
  std::uint32_t line_of(const Event& event);
  void put(const std::string& text);

  std::ofstream out_;
  const std::uint64_t most_bytes_;
  const std::function<void(const Summary&)> on_end_;
  const std::int64_t begin_ns_;
  Summary summary_;                             // the writer's, until it has ended
  std::string text_;                            // one event on its way
  std::map<const char*, std::uint32_t> lines_;  // of tracks, by the pointers of their names
  std::map<std::uint32_t, std::string> named_;  // threads' lines that have been named

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;           // under mutex_
  std::atomic<bool> ended_{false};  // release and acquire: who sees it sees the summary
  std::thread writer_;              // last: it uses all of the above
};

}  // namespace reprise::traces
