#pragma once
// Sessions of one program, one after the other: started and stopped by whoever operates it, each in a file of its own.
// The first is called as was said, the next ones "name.2.json", "name.3.json".
//
// Threading: any thread. Nothing here waits for a file to be written.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/outcome.h"
#include "traces/session_file.h"

namespace reprise::traces {

class SessionControl {
 public:
  /// `tell` gets a line for people about each start and end, on whichever thread.
  SessionControl(std::filesystem::path path, std::uint64_t most_bytes,
                 std::function<void(const std::string& line)> tell);
  /// Ends the session and waits for its file.
  ~SessionControl();
  SessionControl(const SessionControl&) = delete;
  SessionControl& operator=(const SessionControl&) = delete;

  struct State {
    bool records = false;
    std::string file{};  // of the session, or of the last one; empty: there was none
  };
  State state() const;

  /// The state after it, or why it cannot be done.
  using Changed = Outcome<State, std::string>;
  Changed start();
  Changed stop();
  /// Ends the session and waits for its file: before the program ends without destructors.
  void finish();
  /// Starts, or stops.
  void toggle();

 private:
  std::filesystem::path path_of(std::uint32_t number) const;

  const std::filesystem::path path_;
  const std::uint64_t most_bytes_;
  const std::function<void(const std::string&)> tell_;

  mutable std::mutex mutex_;
  std::uint32_t sessions_ = 0;         // begun
  std::unique_ptr<SessionFile> file_;  // of the last session
};

}  // namespace reprise::traces
