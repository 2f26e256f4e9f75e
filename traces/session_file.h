#pragma once
// Writes recorder events to a file in the Trace Event format, for Perfetto (ui.perfetto.dev) and
// chrome://tracing.
//
//   tracks, threads   lines of one process; the argument `wait_us` is a turn's wait in the mailbox
//   plots             counters
//   requests          asynchronous lines of category "request", one per id, with their marks
//
// A thread writes every kInterval, so a killed program loses only the last interval; the closing bracket may
// be missing, which the format allows.
//
// Bound: `max_bytes` of the file, after which recording ends. That and the events lost in between are
// reported by stop() and in the file's last event. Threading: one thread opens and stops; events come from
// any thread. One file at a time per process.

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
  static constexpr std::uint64_t kMaxBytes = 256u << 20;

  struct Summary {
    std::uint64_t events = 0;
    std::uint64_t bytes = 0;
    std::uint64_t dropped = 0;  // events lost
    bool full = false;          // the file reached max_bytes
    std::string error{};        // of writing; empty: none
  };

  /// Starts recording into `path`, which is replaced, or returns why it cannot. The writer thread calls
  /// `ended` once, when the file is complete.
  static Outcome<std::unique_ptr<SessionFile>, std::string> open(
      const std::filesystem::path& path, std::uint64_t max_bytes = kMaxBytes,
      std::function<void(const Summary&)> ended = {});
  ~SessionFile();
  SessionFile(const SessionFile&) = delete;
  SessionFile& operator=(const SessionFile&) = delete;

  /// Ends the recording; the writer thread completes the file later.
  void stop_soon();
  /// Returns true if the file is complete.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  /// Completes the file and returns its summary. Call once.
  Summary stop();

 private:
  SessionFile(std::ofstream out, std::uint64_t max_bytes, std::function<void(const Summary&)> ended);

  void write_until_stopped();
  void write_pending();
  void write_names();
  void append(const Event& event);
  void append_arrival(const Event& turn, std::uint32_t line);
  std::uint32_t line_of(const Event& event);
  void put(const std::string& text);

  std::ofstream out_;
  const std::uint64_t max_bytes_;
  const std::function<void(const Summary&)> on_end_;
  const std::int64_t begin_ns_;
  Summary summary_;                             // used by the writer thread until ended_
  std::string text_;                            // the event being formatted
  std::map<const char*, std::uint32_t> lines_;  // line numbers of tracks, by pointer to the track's name
  std::map<std::uint32_t, std::string> named_;  // names already written, by thread

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;           // guarded by mutex_
  std::atomic<bool> ended_{false};  // release/acquire: a thread that reads true sees summary_
  std::thread writer_;              // declared last, because it uses the members above
};

}  // namespace reprise::traces
