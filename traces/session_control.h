#pragma once
// Starts and stops consecutive trace sessions of one program, each in its own file: `name.json`, then
// `name.2.json`, `name.3.json`.
//
// Threading: any thread. Only finish() and the destructor wait for a file to be written.

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
  /// `tell` receives a line for the operator at each start and end, on any thread.
  SessionControl(std::filesystem::path path, std::uint64_t max_bytes,
                 std::function<void(const std::string& line)> tell);
  /// Ends the session and waits for its file.
  ~SessionControl();
  SessionControl(const SessionControl&) = delete;
  SessionControl& operator=(const SessionControl&) = delete;

  struct State {
    bool records = false;
    std::string file{};  // current or last session; empty: there was none
  };
  State state() const;

  /// The new state, or the reason for refusal.
  using Changed = Outcome<State, std::string>;
  Changed start();
  Changed stop();
  /// Ends the session and waits for its file, for programs that end without destructors.
  void finish();
  /// Stops a running session, otherwise starts one.
  void toggle();

 private:
  std::filesystem::path path_of(std::uint32_t number) const;

  const std::filesystem::path path_;
  const std::uint64_t max_bytes_;
  const std::function<void(const std::string&)> tell_;

  mutable std::mutex mutex_;
  std::uint32_t sessions_ = 0;         // sessions started
  std::unique_ptr<SessionFile> file_;  // current or last session
};

}  // namespace reprise::traces
