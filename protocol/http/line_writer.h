#pragma once
// Writes lines to a file descriptor from a thread of its own, so that a reader who is slow, stuck or gone
// costs lines and never time: put() does not wait, what waits to be written is bounded, and what does not fit
// or cannot be written is counted, and told in the place of what is missing.
//
// Threading: any thread. The writing thread may be stuck in the system for as long as it likes: nothing waits
// for it longer than flush() is told to, and the end of the process ends it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace reprise::protocol {

class LineWriter {
 public:
  /// Makes the line that tells of lines which are missing. Called by the writing thread.
  using Notice = std::function<std::string(std::uint64_t lines)>;

  /// `file` must stay open. Of lines that wait, at most `most_bytes` are held.
  LineWriter(int file, std::size_t most_bytes, Notice notice);
  /// Leaves the thread behind, which ends when it has written what was put.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /// A line with its newline.
  void put(std::string line);
  /// Waits until all that was put has been written or dropped; false when the time was up before.
  bool flush(std::chrono::milliseconds limit);
  /// Lines that will never be written.
  std::uint64_t dropped() const;

 private:
  struct Shared;
  static void run(Shared& shared);
  std::shared_ptr<Shared> shared_;
};

}  // namespace reprise::protocol
